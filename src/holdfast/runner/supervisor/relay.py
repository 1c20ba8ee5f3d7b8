"""A supervisor's work with a child: its startup, its commands to the store, and its report."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from holdfast.access.identity import Identity
from holdfast.access.permissions import check
from holdfast.errors import HoldfastError, NotSupported, StoreUnavailable
from holdfast.portable.transport import Endpoint
from holdfast.runner.protocol.messages import (
    REPORT,
    STARTUP,
    Failed,
    Report,
    Startup,
    report_decoder,
)
from holdfast.runner.supervisor.ending import exit_text
from holdfast.runner.supervisor.launcher_link import LauncherGone, LauncherLink
from holdfast.server.execution.content import checked
from holdfast.store import Store
from holdfast.stores.pipe import ANSWER, COMMAND, ENDPOINT, ERROR
from holdfast.wire.channel import Channel, encode
from holdfast.wire.codec import MSGPACK
from holdfast.wire.purpose import Purpose

_purposes: msgspec.msgpack.Decoder[Purpose] = msgspec.msgpack.Decoder(Purpose)


class ChildKilled(HoldfastError):
    """The process of a child was killed, perhaps for its memory."""

    code = "child_killed"


def run_child(
    launcher: LauncherLink,
    startup: Startup,
    log: Path,
    store: Store,
    identity: Identity,
    timeout: float,
) -> Report:
    """Have a child do its work within `timeout` seconds; return its report, or why there is none.

    Raise ChildKilled if a signal killed it, and LauncherGone if its end was not observed, because
    the launcher died too.
    """
    report, began = None, time.monotonic()
    with launcher.launch() as child:
        child.log_to(log)
        with child.limited(timeout), suppress(OSError):
            child.channel.send(STARTUP, encode(startup))
            report = relay(child.channel, store, identity)
    if report is not None:
        return report
    if child.status is None:
        raise LauncherGone("the launcher has ended")
    if time.monotonic() > began + timeout:
        return Failed(error=f"it took longer than {timeout:.0f} s")
    if child.status < 0:
        raise ChildKilled(exit_text(child.status))
    return Failed(error=exit_text(child.status))


def no_endpoint(purpose: Purpose) -> Endpoint:
    raise NotSupported("only tasks can make handles", hint="use the store directly here")


def relay(
    channel: Channel,
    store: Store,
    identity: Identity,
    max_value_bytes: int = 0,
    endpoint: Callable[[Purpose], Endpoint] = no_endpoint,
) -> Report | None:
    """Serve a child until its report, which is its last message, or until its channel closes.

    Return the report; None without one, and after an invalid message, which did not come from our
    code in the child and makes the channel unusable.
    """
    was_away = False
    while (frame := channel.receive()) is not None:
        kind, data = frame
        try:
            if kind == REPORT:
                report = report_decoder.decode(data)
                if isinstance(report, Failed) and not was_away:
                    # What was unavailable is another store, which the task opened itself.
                    return msgspec.structs.replace(report, store_was_away=False)
                return report
            if kind == COMMAND:
                was_away |= _send_answer(
                    channel, partial(_execute_command, data, store, identity, max_value_bytes)
                )
            elif kind == ENDPOINT:
                _send_answer(channel, partial(endpoint, _purposes.decode(data)))
            else:
                return None
        except (OSError, msgspec.DecodeError):
            return None
    return None


def _execute_command(data: bytes, store: Store, identity: Identity, max_value_bytes: int) -> Any:
    command = MSGPACK.decode_command(data)
    command = checked(command, max_value_bytes, may_hold_nul=b"\0" in data)
    check(identity, command)
    return store.execute(command)


def _send_answer(channel: Channel, ask: Callable[[], Any]) -> bool:
    """Send the answer, or the error; return whether the store is unavailable."""
    try:
        channel.send(ANSWER, MSGPACK.encode(ask()))
    except HoldfastError as error:
        channel.send(ERROR, MSGPACK.encode_error(error))
        return isinstance(error, StoreUnavailable)
    return False
