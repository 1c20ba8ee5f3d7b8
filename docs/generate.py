"""Writes the pages of docs/reference that follow from the code: `python docs/generate.py`."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import click

from holdfast import errors
from holdfast.cli import cli
from holdfast.errors import HoldfastError
from holdfast.settings import Declared, declared, duration_text

REFERENCE = Path(__file__).parent / "reference"
CLI_INTRODUCTION = (
    "Data goes to stdout and talk to stderr. The exit status is 0, 1 (not found, conflict, "
    "failed) or 2 (bad usage), and 130 after Ctrl-C. `HOLDFAST_TRACEBACK=1` shows where an "
    "unexpected error happened."
)
SETTINGS_INTRODUCTION = (
    "They are in `holdfast.toml`, or under `[tool.holdfast]` in `pyproject.toml`, of the current "
    "directory or the nearest one above it that has them. `core.home` below is `home` in the "
    "section `[core]`. In the environment it is `HOLDFAST__CORE__HOME`, which overrides the file. "
    "`holdfast config list` shows what is in force."
)
ERRORS_INTRODUCTION = (
    "All are in `holdfast.errors`, and all are a `HoldfastError`. `message` says what failed and "
    "where, `hint` what to do next; `str(error)` has both. A caller that knows only Python's own "
    "errors can catch those instead. `exit` is the status with which the command line ends."
)


def pages() -> dict[str, str]:
    """Each page's name and text."""
    return {"cli.md": cli_page(), "errors.md": errors_page(), "settings.md": settings_page()}


def cli_page() -> str:
    parts = ["# Command line", CLI_INTRODUCTION]
    for context in contexts(click.Context(cli, info_name="holdfast", terminal_width=80)):
        level = "#" * (2 + len(context.command_path.split()) - 1)
        parts.append(f"{level} {context.command_path}")
        parts.append(f"```text\n{context.command.get_help(context)}\n```")
    return "\n\n".join(parts) + "\n"


def contexts(context: click.Context) -> Iterator[click.Context]:
    """The command and all that are below it, in the order of the help."""
    yield context
    group = context.command
    if isinstance(group, click.Group):
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            if not command.hidden:
                yield from contexts(click.Context(command, parent=context, info_name=name))


def errors_page() -> str:
    rows = [
        "| error | is also | code | HTTP | exit | meaning |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    rows += [
        f"| `{kind.__name__}` | {also(kind)} | `{kind.code}` | {kind.status} | {kind.exit_status} "
        f"| {' '.join((kind.__doc__ or '').split())} |"
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, HoldfastError)
    ]
    return "\n\n".join(("# Errors", ERRORS_INTRODUCTION, "\n".join(rows))) + "\n"


def also(kind: type[HoldfastError]) -> str:
    """What else it may be caught as: errors of ours above it, and builtins."""
    above = kind.__mro__[1 : kind.__mro__.index(Exception)]
    return ", ".join(f"`{one.__name__}`" for one in above if one is not HoldfastError)


def settings_page() -> str:
    rows = ["| setting | default | may be | meaning |", "| --- | --- | --- | --- |"]
    rows += [
        f"| `{setting.name}` | {default(setting)} | {setting.allowed} | {setting.description} |"
        for setting in declared()
    ]
    return "\n\n".join(("# Settings", SETTINGS_INTRODUCTION, "\n".join(rows))) + "\n"


def default(setting: Declared) -> str:
    value = setting.default
    if isinstance(value, timedelta):
        value = duration_text(value)
    elif isinstance(value, bool):
        value = str(value).lower()
    return "" if value == "" else f"`{value}`"


if __name__ == "__main__":
    for name, text in pages().items():
        (REFERENCE / name).write_text(text, encoding="utf-8")
