"""A supervisor's side of the pipe: executes the commands of a child and receives its report."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from holdfast.access.identity import Identity
from holdfast.access.permissions import check
from holdfast.errors import HoldfastError, NotSupported
from holdfast.portable.transport import Endpoint
from holdfast.runner.protocol.messages import REPORT, Report, report_decoder
from holdfast.server.execution.content import checked
from holdfast.store import Store
from holdfast.stores.pipe import ANSWER, COMMAND, ENDPOINT, ERROR
from holdfast.wire.channel import Channel
from holdfast.wire.codec import MSGPACK
from holdfast.wire.purpose import Purpose

_purposes: msgspec.msgpack.Decoder[Purpose] = msgspec.msgpack.Decoder(Purpose)


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
    while (frame := channel.receive()) is not None:
        kind, data = frame
        try:
            if kind == REPORT:
                return report_decoder.decode(data)
            if kind == COMMAND:
                _answer(channel, partial(_execute, data, store, identity, max_value_bytes))
            elif kind == ENDPOINT:
                _answer(channel, partial(endpoint, _purposes.decode(data)))
            else:
                return None
        except (OSError, msgspec.DecodeError):
            return None
    return None


def _execute(data: bytes, store: Store, identity: Identity, max_value_bytes: int) -> Any:
    command = MSGPACK.decode_command(data)
    command = checked(command, max_value_bytes, may_hold_nul=b"\0" in data)
    check(identity, command)
    return store.execute(command)


def _answer(channel: Channel, ask: Callable[[], Any]) -> None:
    try:
        channel.send(ANSWER, MSGPACK.encode(ask()))
    except HoldfastError as error:
        channel.send(ERROR, MSGPACK.encode_error(error))
