"""The command line. It is thin: it parses, builds a command for the store, and prints the answer.

Data goes to stdout and messages to stderr. Modules are imported when one of their commands is used,
so that each command starts as fast as it can.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

import click

from holdfast import distribution
from holdfast.cli.lazy import LazyGroup
from holdfast.errors import HoldfastError
from holdfast.version import __version__


@click.group(
    cls=LazyGroup,
    modules={
        "assets": "holdfast.cli.assets",
        "auth": "holdfast.cli.auth",
        "completion": "holdfast.cli.completion",
        "config": "holdfast.cli.config",
        "dags": "holdfast.cli.dags",
        "db": "holdfast.cli.db",
        "run": "holdfast.cli.run",
        "runs": "holdfast.cli.runs",
        "scheduler": "holdfast.cli.scheduler",
        "server": "holdfast.cli.server",
        "standalone": "holdfast.cli.standalone",
        "state-store": "holdfast.cli.state_store",
        "tasks": "holdfast.cli.tasks",
        "triggerer": "holdfast.cli.triggerer",
    },
)
@click.version_option(__version__, message="holdfast %(version)s")
def cli() -> None:
    """Durable state for Spark data pipelines."""


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run a command line and exit: 0, 1 (not found, conflict, failed) or 2 (bad usage)."""
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
        return fail(message, "this is a bug; set HOLDFAST_TRACEBACK=1 to see the traceback", 1)


def fail(message: str, hint: str, status: int) -> int:
    click.echo(f"error: {message}", err=True)
    if hint:
        click.echo(f"hint: {hint}", err=True)
    return status
