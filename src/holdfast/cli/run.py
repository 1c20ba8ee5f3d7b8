"""`holdfast run`: run the DAG of a file in the foreground."""

from __future__ import annotations

import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from holdfast.cli.output import say
from holdfast.cli.parameter import ID, conf_option
from holdfast.environment import hide
from holdfast.process import call_on_signals
from holdfast.settings import load

if TYPE_CHECKING:
    from holdfast.cli.liveview import LiveView, PlainView


@click.command("run")
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--dag-id", type=ID, metavar="ID", help="The DAG to run, if the file has several.")
@click.option(
    "--run-id", type=ID, metavar="ID", help="The run's id; the id of an unfinished run resumes it."
)
@conf_option
def command(file: Path, dag_id: str | None, run_id: str | None, conf: str | None) -> None:
    """Run the DAG in FILE until it ends. The exit status is 0 only if the run succeeded."""
    from holdfast.model.run import RunState
    from holdfast.runner.scheduler.foreground import LocalRun

    hide()
    # Handled as Ctrl-C, so that the end of a container or terminal leaves the run to be resumed.
    call_on_signals((signal.SIGTERM, signal.SIGHUP), _interrupt)
    with LocalRun(load(), file) as local:
        try:
            dag = local.load(dag_id)
            run = local.begin(dag, run_id, conf)
        except KeyboardInterrupt:
            local.abandon()
            say("Stopped before the run started.")
            sys.exit(130)
        if run.state.ended:
            say(f"Run {run.run_id} has ended: {run.state}. `holdfast tasks clear` runs it again.")
            sys.exit(run.state is not RunState.SUCCESS)
        view = _view()
        try:
            state = local.carry_on(view)
        except KeyboardInterrupt:
            view.say("Stopping: tasks are asked to end. Press Ctrl-C again to kill them.")
            view.close()
            try:
                local.stop()
            except KeyboardInterrupt:
                local.abandon()
            say(f"Stopped. Resume with: {_command(file, dag_id, run.run_id)}")
            sys.exit(130)
        view.close()
    sys.exit(state is not RunState.SUCCESS)


def _interrupt() -> None:
    raise KeyboardInterrupt


def _command(file: Path, dag_id: str | None, run_id: str) -> str:
    """Return the command that continues a run."""
    which = ["--dag-id", dag_id] if dag_id else []
    return shlex.join(["holdfast", "run", str(file), *which, "--run-id", run_id])


def _view() -> LiveView | PlainView:
    from holdfast.cli.liveview import LiveView, PlainView

    if sys.stderr.isatty():
        from rich.console import Console

        return LiveView(Console(stderr=True))
    return PlainView()
