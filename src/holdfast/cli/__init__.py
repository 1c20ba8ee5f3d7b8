"""The command line. It is thin: it parses, builds a command for the store, and prints the answer.

Data goes to stdout and messages to stderr. Modules are imported when one of their commands is used,
so that each command starts as fast as it can.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final, NoReturn, cast

import click

from holdfast import distribution
from holdfast.errors import HoldfastError
from holdfast.version import __version__

COMMANDS: Final = {
    "alerts": "alerts.command",
    "assets": "assets.command",
    "auth": "auth.command",
    "completion": "completion.command",
    "config": "config.command",
    "dags": "dags.command",
    "db": "db.command",
    "pools": "pools.command",
    "run": "run.command",
    "runs": "runs.command",
    "scheduler": "services.scheduler",
    "scheduler check": "services.check_scheduler",
    "server": "services.server",
    "standalone": "services.standalone",
    "state-store": "state_store.command",
    "tasks": "tasks.command",
    "triggerer": "services.triggerer",
    "triggerer check": "services.check_triggerer",
}
"""By command, of one or two words, the module and the name in it."""


class LazyGroup(click.Group):
    """The commands, each imported when it is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if (two := " ".join(args[:2])) in COMMANDS:
            args = [two, *args[2:]]
        return super().resolve_command(ctx, args)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, name = COMMANDS[cmd_name].split(".")
        return cast(click.Command, getattr(import_module(f"{__name__}.{module}"), name))

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # as in `holdfast runs list | head`
            _discard_stdout()
            ctx.exit(128 + signal.SIGPIPE)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="holdfast %(version)s")
def cli() -> None:
    """Durable state for Spark data pipelines."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run a command line and exit: 0, 1 (not found, conflict, failed) or 2 (bad usage)."""
    _prepare_streams()
    try:
        sys.exit(invoke(args))
    finally:
        # Skips the interpreter's last garbage collection of all objects at exit.
        gc.freeze()


def invoke(args: Sequence[str] | None) -> int:
    try:
        distribution.check()
        return cli.main(args, "holdfast", standalone_mode=False) or 0
    except HoldfastError as error:
        return fail(error.message, error.hint, error.exit_status)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.UsageError as error:
        path = error.ctx.command_path if error.ctx else "holdfast"
        return fail(error.format_message(), f"`{path} --help` shows the usage", error.exit_code)
    except click.Abort:
        return fail("aborted", "", 1)
    except Exception as error:
        if os.environ.get("HOLDFAST_TRACEBACK"):
            raise
        message = " ".join(f"unexpected {type(error).__name__}: {error}".split())
        # A file or a disk of this machine may be at fault, and not the program.
        why = "" if isinstance(error, OSError) else "this is a bug; "
        return fail(message, f"{why}set HOLDFAST_TRACEBACK=1 to see the traceback", 1)


def _prepare_streams() -> None:
    """Connect closed streams to nothing, and make stdout write what its encoding lacks as escapes.

    Otherwise the next file that is opened would take the place of a closed stream.
    """
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115  (open until the end)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")


def _discard_stdout() -> None:
    """Let what is still to be written to stdout, whose reader has gone, be written nowhere."""
    with open(os.devnull, "wb") as nowhere:
        os.dup2(nowhere.fileno(), sys.stdout.fileno())


def fail(message: str, hint: str, status: int) -> int:
    click.echo(f"error: {message}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)
    return status
