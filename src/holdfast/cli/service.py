"""Shared parts of the commands that run until they are stopped."""

from __future__ import annotations

import os
import signal
import time
from threading import Event, Thread

import click

from holdfast.process import call_on_signals, hide_this_process

ROUND = 0.5

with_parent_option = click.option(
    "--with-parent",
    type=int,
    hidden=True,
    help="Exit when the process with this id, its parent, exits.",
)


def stopping(with_parent: int | None = None) -> Event:
    """Return an event that is set by Ctrl-C, SIGTERM, the end of the terminal, and with
    `with_parent` when the parent ends.

    From here on, other processes of the user cannot read this one.
    """
    hide_this_process()
    event = Event()
    call_on_signals((signal.SIGINT, signal.SIGTERM, signal.SIGHUP), event.set)
    if with_parent is not None:
        Thread(target=_follow, args=(with_parent, event), daemon=True).start()
    return event


def _follow(parent: int, event: Event) -> None:
    while os.getppid() == parent:
        time.sleep(ROUND)
    event.set()
