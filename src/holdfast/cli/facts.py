"""Output of the facts about one object, a name and a value on each line."""

from __future__ import annotations

import sys
from datetime import datetime

import click

from holdfast.cli.output import print_lines, shortened, time_text


def print_facts(facts: dict[str, str]) -> None:
    """Print the facts that are not empty, in columns on a terminal, with tabs elsewhere."""
    known = {name: value for name, value in facts.items() if value}
    if sys.stdout.isatty():
        width = max(len(name) for name in known) + 2
        for name, value in known.items():
            click.echo(f"{name:{width}}{shortened(value)}")
        click.echo()
    else:
        print_lines(f"{name}\t{value}" for name, value in known.items())


def when(time: datetime | None) -> str:
    """Return a time as text; empty for None."""
    return time_text(time) if time else ""
