"""`holdfast triggerer`."""

from __future__ import annotations

import click

from holdfast.cli.service import stopping, with_parent_option
from holdfast.process import log_to_stderr
from holdfast.settings import load


@click.command("triggerer")
@with_parent_option
def command(with_parent: int | None) -> None:
    """Run the watchers of assets in the scheduler's DAGs."""
    from holdfast.runner.triggerer import Triggerer

    log_to_stderr()
    stop = stopping(with_parent)
    Triggerer(load()).run(stop)
