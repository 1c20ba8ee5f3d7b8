"""A supervisor's side of the pipe: carries out what a child asks for, and hears its report."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from holdfast.authority import Identity, check
from holdfast.errors import HoldfastError, NotSupported
from holdfast.runner.channel import Channel
from holdfast.runner.child import REPORT, report_decoder
from holdfast.runner.messages import Purpose, Report
from holdfast.store import Store
from holdfast.stores.pipe import ANSWER, COMMAND, ENDPOINT, ERROR
from holdfast.transport import Endpoint
from holdfast.wire import MSGPACK

_purposes: msgspec.msgpack.Decoder[Purpose] = msgspec.msgpack.Decoder(Purpose)


def no_endpoint(purpose: Purpose) -> Endpoint:
    raise NotSupported("only tasks have handles", hint="use the store itself here")


def relay(
    channel: Channel,
    store: Store,
    identity: Identity,
    endpoint: Callable[[Purpose], Endpoint] = no_endpoint,
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
            elif kind == ENDPOINT:
                purpose = _purposes.decode(data)
                channel.send(*_answered(partial(endpoint, purpose)))
            else:
                return None
        except (OSError, msgspec.DecodeError):
            return None
    return None


def _carry_out(data: bytes, store: Store, identity: Identity) -> Any:
    command = MSGPACK.decode_command(data)
    check(identity, command)
    return store.execute(command)


def _answered(ask: Callable[[], Any]) -> tuple[bytes, bytes]:
    try:
        return ANSWER, MSGPACK.encode(ask())
    except HoldfastError as error:
        return ERROR, MSGPACK.encode_error(error)
