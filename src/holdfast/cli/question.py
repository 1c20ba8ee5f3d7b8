"""Confirmation of actions that cannot be undone."""

from __future__ import annotations

import sys

import click

from holdfast.errors import InvalidInput


def yes_or_terminal(ctx: click.Context, parameter: click.Parameter, yes: bool) -> bool:
    """Return `--yes`, as the callback of that option. Raise InvalidInput without it where there is
    no terminal to ask at."""
    if not yes and not sys.stdin.isatty():
        raise InvalidInput(
            f"`{ctx.command_path}` asks for confirmation, and stdin is not a terminal",
            hint="in a script, add --yes",
        )
    return yes


yes_option = click.option(
    "--yes",
    is_flag=True,
    callback=yes_or_terminal,
    help="Do not ask for confirmation; required in scripts.",
)


def ask(question: str, yes: bool) -> None:
    """Ask for confirmation, unless `--yes` was given. Abort where the person does not agree."""
    if not yes:
        click.confirm(question, abort=True, err=True)
