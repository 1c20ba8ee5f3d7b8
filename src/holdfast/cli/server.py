"""`holdfast server`."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from holdfast.cli.service import stopping, with_parent_option
from holdfast.process import log_to_stderr
from holdfast.settings import load


@click.command("server")
@click.option("--host", metavar="ADDRESS", help="Address to listen on, instead of [api] host.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Port to listen on, instead of [api] port; 0: any free port.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Number of server processes, instead of [api] processes.",
)
@with_parent_option
def command(with_parent: int | None, **given: Any) -> None:
    """Serve the stores over HTTP to workers, people and tools.

    The server prints its address once it listens, and logs each request to stderr. On SIGTERM or
    Ctrl-C it finishes the requests in progress.
    """
    from holdfast.server.serve import serve

    settings = load()
    api = msgspec.structs.replace(
        settings.api, **{name: value for name, value in given.items() if value is not None}
    )
    log_to_stderr()
    serve(msgspec.structs.replace(settings, api=api), stopping(with_parent), click.echo)
