"""`holdfast standalone`."""

from __future__ import annotations

from pathlib import Path

import click

from holdfast.cli.service import stopping
from holdfast.errors import NotFound
from holdfast.process import log_to_stderr
from holdfast.settings import load


@click.command("standalone")
@click.argument("dags_dir", type=click.Path(path_type=Path))
def command(dags_dir: Path) -> None:
    """Run server, scheduler and triggerer together, on the DAG files in DAGS_DIR.

    A process that ends is restarted.
    """
    from holdfast.runner import standalone
    from holdfast.server import packages

    load()
    packages.check()
    if not dags_dir.is_dir():
        raise NotFound(
            f"there is no directory {dags_dir}", hint="give the directory with the DAG files"
        )
    log_to_stderr()
    standalone.run([["server"], ["scheduler", str(dags_dir)], ["triggerer"]], stopping())
