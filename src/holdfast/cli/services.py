"""`holdfast server`, `scheduler`, `triggerer` and `standalone`, which run until stopped, and checks
whether they do."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Mapping
from pathlib import Path
from threading import Event, Thread
from typing import Any

import click
import msgspec

from holdfast import commands as c
from holdfast.cli.opening import open_store
from holdfast.cli.output import json_option, print_document, print_table, when
from holdfast.environment import hide
from holdfast.errors import NotFound
from holdfast.model.service import Service, ServiceKind
from holdfast.monitoring.service_log import logging_to_stderr
from holdfast.process import call_on_signals, this_process
from holdfast.settings import Settings, load

ROUND = 0.5
"""Seconds between two checks whether the parent is alive."""

_with_parent_option = click.option(
    "--with-parent",
    type=int,
    hidden=True,
    help="Exit when the process with this id, its parent, exits.",
)
_dags_dir_argument = click.argument("dags_dir", type=click.Path(path_type=Path))


_host_option = click.option(
    "--host", metavar="ADDRESS", help="Address to listen on, instead of [api] host."
)
_port_option = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Port to listen on, instead of [api] port; 0: any free port.",
)


@click.command("server")
@_host_option
@_port_option
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    metavar="N",
    help="Number of server processes, instead of [api] processes.",
)
@_with_parent_option
def server(with_parent: int | None, **given: Any) -> None:
    """Serve the stores over HTTP to workers, people and tools.

    The server prints its address once it listens, and logs each request to stderr. On SIGTERM or
    Ctrl-C it finishes the requests in progress.
    """
    from holdfast.server.serve import serve

    settings = _with_api(_load_hidden(), given)
    _ = settings.database_url  # raises where it is a server
    with logging_to_stderr(settings.logging):
        serve(settings, _stopping(with_parent), click.echo)


@click.command("scheduler")
@_dags_dir_argument
@_with_parent_option
def scheduler(dags_dir: Path, with_parent: int | None) -> None:
    """Run the DAGs in DAGS_DIR: on schedule, when assets change, and on request.

    Files are read again when they change. Expired entries and the state of assets that no DAG
    declares any more are removed at each cleanup_interval.
    """
    from holdfast.runner.scheduler.dag_files import DagDirectory

    settings, files = _load_hidden(), DagDirectory(dags_dir)
    _ = settings.database_url
    with logging_to_stderr(settings.logging):
        from holdfast.runner.scheduler.scheduler import Scheduler

        stop = _stopping(with_parent)
        Scheduler(settings, files).run(stop)


@click.command("triggerer")
@_with_parent_option
def triggerer(with_parent: int | None) -> None:
    """Run the watchers of assets in the scheduler's DAGs."""
    settings = _load_hidden()
    _ = settings.database_url
    with logging_to_stderr(settings.logging):
        from holdfast.runner.triggerer import Triggerer

        stop = _stopping(with_parent)
        Triggerer(settings).run(stop)


_host_filter = click.option(
    "--host", metavar="NAME", help="Only those on the machine, or in the container, of this name."
)
_here_filter = click.option(
    "--here", is_flag=True, help="Only those on this machine, or in this container."
)


@click.command("scheduler check")
@_host_filter
@_here_filter
@json_option
def check_scheduler(host: str | None, here: bool, as_json: bool) -> None:
    """Check that a scheduler is alive, for probes. The exit status is 1 if none is.

    A scheduler reports a sign of life every 5 seconds, and is alive for 30 seconds after each. A
    directory of DAG files with the name `check` is given as `./check`.
    """
    _check(ServiceKind.SCHEDULER, host, here, as_json)


@click.command("triggerer check")
@_host_filter
@_here_filter
@json_option
def check_triggerer(host: str | None, here: bool, as_json: bool) -> None:
    """Check that a triggerer is alive, for probes. The exit status is 1 if none is."""
    _check(ServiceKind.TRIGGERER, host, here, as_json)


def _check(kind: ServiceKind, host: str | None, here: bool, as_json: bool) -> None:
    if host is not None and here:
        raise click.UsageError("give --host or --here, not both")
    if here:
        host = this_process().hostname
    with open_store(_load_hidden()) as store:
        services = store.execute(c.ListServices())
    found = [
        one
        for one in services
        if one.kind is kind and (host is None or one.process.hostname == host)
    ]
    if as_json:
        print_document({f"{kind}s": [_document(one) for one in found]})
    elif found:
        print_table(
            ("host", "process", "state", "started", "last seen"),
            [
                (
                    one.process.hostname,
                    str(one.process.pid),
                    "alive" if one.alive else "lost",
                    when(one.started_at),
                    when(one.seen_at),
                )
                for one in found
            ],
        )
    if not any(one.alive for one in found):
        where = "" if host is None else f" on host `{host}`"
        directory = " DAGS_DIR" if kind is ServiceKind.SCHEDULER else ""
        last = f"; the last one was seen {found[0].age.total_seconds():.0f} s ago" if found else ""
        raise NotFound(
            f"no {kind}{where} is alive{last}",
            hint=f"its log says why; `holdfast {kind}{directory}` starts one",
        )


def _document(service: Service) -> dict[str, Any]:
    return {
        "hostname": service.process.hostname,
        "pid": service.process.pid,
        "alive": service.alive,
        "started_at": service.started_at,
        "latest_heartbeat": service.seen_at,
    }


@click.command("standalone")
@_dags_dir_argument
@_host_option
@_port_option
def standalone(dags_dir: Path, **given: Any) -> None:
    """Run server, scheduler and triggerer together, on the DAG files in DAGS_DIR.

    A process that ends is restarted.
    """
    from holdfast.runner import standalone
    from holdfast.server import packages

    settings = _with_api(_load_hidden(), given)
    packages.check()
    from holdfast.server.serve import listen

    _ = settings.database_url  # raises where it is a server, before any process is started
    listen(settings).close()  # likewise, where another program has the port
    if not dags_dir.is_dir():
        raise NotFound(
            f"there is no directory {dags_dir}", hint="give the directory with the DAG files"
        )
    options = [f"--{name}={value}" for name, value in given.items() if value is not None]
    parts = [["server", *options], ["scheduler", str(dags_dir)], ["triggerer"]]
    with logging_to_stderr(settings.logging):
        standalone.run(parts, _stopping())


def _load_hidden() -> Settings:
    """Return the settings, after hiding this process from others of the user."""
    hide()
    return load()


def _with_api(settings: Settings, given: Mapping[str, Any]) -> Settings:
    """Return the settings, with those of [api] that are given as options."""
    options = {name: value for name, value in given.items() if value is not None}
    return msgspec.structs.replace(settings, api=msgspec.structs.replace(settings.api, **options))


def _stopping(with_parent: int | None = None) -> Event:
    """Return an event that is set by Ctrl-C, SIGTERM, the end of the terminal, and with
    `with_parent` when the parent ends."""
    event = Event()
    call_on_signals((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), event.set)
    if with_parent is not None:
        Thread(target=_follow, args=(with_parent, event), daemon=True).start()
    return event


def _follow(parent: int, event: Event) -> None:
    while os.getppid() == parent:
        time.sleep(ROUND)
    event.set()
