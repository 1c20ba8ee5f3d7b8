"""A supervisor's side of the pipe: carries out what a child asks for, and hears its report."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from holdfast.authority import Identity, check
from holdfast.errors import HoldfastError
from holdfast.runner.channel import Channel
from holdfast.runner.child import REPORT, report_decoder
from holdfast.runner.messages import JobName, Report
from holdfast.store import Store
from holdfast.stores.pipe import ANSWER, COMMAND, ENDPOINT, ERROR
from holdfast.transport import Endpoint
from holdfast.wire import MSGPACK


def relay(
    channel: Channel,
    store: Store,
    identity: Identity,
    endpoint: Callable[[JobName | None], Endpoint] | None = None,
) -> Report | None:
    """Until the child reports, which is its last word, or its end of the channel closes.

    What is none of its messages did not come from our side of the child, and the channel is of no
    use any more.
    """
    while (frame := channel.receive()) is not None:
        kind, data = frame
        try:
            if kind == REPORT:
                return report_decoder.decode(data)
            if kind == COMMAND:
                channel.send(*_answered(partial(_carry_out, data, store, identity)))
            elif kind == ENDPOINT and endpoint is not None:
                channel.send(*_answered(partial(endpoint, _job(data))))
            else:
                return None
        except (OSError, msgspec.DecodeError):
            return None
    return None


def _carry_out(data: bytes, store: Store, identity: Identity) -> Any:
    command = MSGPACK.decode_command(data)
    check(identity, command)
    return store.execute(command)


def _job(data: bytes) -> JobName | None:
    return msgspec.msgpack.decode(data, type=JobName | None)


def _answered(ask: Callable[[], Any]) -> tuple[bytes, bytes]:
    try:
        return ANSWER, MSGPACK.encode(ask())
    except HoldfastError as error:
        return ERROR, MSGPACK.encode_error(error)
