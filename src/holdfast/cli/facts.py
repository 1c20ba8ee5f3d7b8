"""What is known of one thing, a name and a value on each line."""

from __future__ import annotations

import sys
from datetime import datetime

import click

from holdfast.cli.output import print_lines, shortened, time_text


def print_facts(facts: dict[str, str]) -> None:
    """Those that there are, in columns on a terminal and with a tab between them elsewhere."""
    known = {name: value for name, value in facts.items() if value}
    if sys.stdout.isatty():
        width = max(len(name) for name in known) + 2
        for name, value in known.items():
            click.echo(f"{name:{width}}{shortened(value)}")
        click.echo()
    else:
        print_lines(f"{name}\t{value}" for name, value in known.items())


def when(time: datetime | None) -> str:
    """A time that may not have come."""
    return time_text(time) if time else ""
