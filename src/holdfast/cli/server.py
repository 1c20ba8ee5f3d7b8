"""`holdfast server`."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from holdfast.cli.service import stopping, with_parent_option
from holdfast.process import log_to_stderr
from holdfast.settings import load


@click.command("server")
@click.option("--host", metavar="ADDRESS", help="Listen on this address, not that of [api] host.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Listen on this port, not that of [api] port; 0 is any free one.",
)
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Answer requests in so many processes, not those of [api] processes.",
)
@with_parent_option
def command(with_parent: int | None, **given: Any) -> None:
    """Serve the stores over HTTP: to workers, people and tools.

    It prints its address once it listens, and a line for each request to stderr. When it is told to
    stop, it finishes the requests that are under way.
    """
    from holdfast.server.serve import serve

    settings = load()
    api = msgspec.structs.replace(
        settings.api, **{name: value for name, value in given.items() if value is not None}
    )
    log_to_stderr()
    serve(msgspec.structs.replace(settings, api=api), stopping(with_parent), click.echo)
