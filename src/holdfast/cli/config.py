"""`holdfast config`: the settings in force."""

from __future__ import annotations

import click

from holdfast.cli.output import json_option, print_document, print_table
from holdfast.settings import load, rows


@click.group("config")
def command() -> None:
    """Show the effective settings."""


@command.command("list")
@json_option
def list_settings(as_json: bool) -> None:
    """Show each setting with its value, origin and meaning."""
    found = list(rows(load()))
    if as_json:
        print_document(found)
        return
    print_table(
        ("setting", "value", "origin", "meaning"),
        [(row.name, shown(row.value), row.origin, row.description) for row in found],
    )


def shown(value: str | int | bool) -> str:
    """Return a value as in the settings file, without quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)
