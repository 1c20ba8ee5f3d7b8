"""`holdfast config`: the settings in force."""

from __future__ import annotations

import sys
from difflib import get_close_matches
from shutil import get_terminal_size
from textwrap import fill

import click

from holdfast.cli.output import json_option, print_document, print_lines, print_table
from holdfast.errors import NotFound
from holdfast.settings import Row, load, rows


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
    elif sys.stdout.isatty():
        for row in found:
            print_lines([f"{row.name} = {shown(row.value)}  ({row.origin})", meaning(row)])
    else:
        print_table(
            ("setting", "value", "origin", "meaning"),
            [(row.name, shown(row.value), row.origin, row.description) for row in found],
        )


@command.command("get")
@click.argument("name")
def get(name: str) -> None:
    """Print the value of one setting, such as `database.url`."""
    found = {row.name: row for row in rows(load())}
    if name not in found:
        near = get_close_matches(name, list(found), n=3) or list(found)
        raise NotFound(f"there is no setting {name}", hint=f"known: {', '.join(near)}")
    print_lines([shown(found[name].value)])


def meaning(row: Row) -> str:
    """Return the description of a setting, as wide as the terminal and below its name."""
    columns = min(get_terminal_size().columns, 100)
    return fill(row.description, columns, initial_indent="    ", subsequent_indent="    ")


def shown(value: str | int | bool) -> str:
    """Return a value as in the settings file, without quotes."""
    return str(value).lower() if isinstance(value, bool) else str(value)
