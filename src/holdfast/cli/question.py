"""Confirmation of actions that cannot be undone."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import click

from holdfast.errors import InvalidInput


def yes_option_if(
    asks: Callable[[dict[str, Any]], bool],
    help: str = "Do not ask for confirmation; required in scripts.",
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return the option `--yes` of a command that asks for confirmation where `asks` returns True
    for the values of its eager options. Without `--yes`, and without a terminal to ask at, such a
    command raises InvalidInput."""

    def check(ctx: click.Context, parameter: click.Parameter, yes: bool) -> bool:
        if not yes and not sys.stdin.isatty() and asks(ctx.params):
            raise InvalidInput(
                f"`{ctx.command_path}` asks for confirmation, and stdin is not a terminal",
                hint="in a script, add --yes",
            )
        return yes

    return click.option("--yes", is_flag=True, callback=check, help=help)


yes_option = yes_option_if(lambda params: True)


def ask(question: str, yes: bool) -> None:
    """Ask for confirmation, unless `--yes` was given. Abort where the person does not agree."""
    if not yes:
        click.confirm(question, abort=True, err=True)
