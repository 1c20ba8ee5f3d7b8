"""`holdfast scheduler`."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.service import stopping, with_parent_option
from holdfast.process import log_to_stderr
from holdfast.settings import load


@click.command("scheduler")
@click.argument("dags_dir", type=click.Path(path_type=Path))
@with_parent_option
def command(dags_dir: Path, with_parent: int | None) -> None:
    """Run the DAGs in DAGS_DIR: on schedule, when assets change, and on request.

    Files are read again when they change. Expired entries and the state of assets that no DAG
    declares any more are removed at each cleanup_interval.
    """
    from holdfast.runner.scheduler.scheduler import Scheduler

    log_to_stderr()
    stop = stopping(with_parent)
    Scheduler(load(), dags_dir).run(stop)
