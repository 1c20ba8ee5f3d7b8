"""A supervisor's side of the pipe: carries out what a child asks for, and hears its report."""

from __future__ import annotations

import msgspec

from holdfast.authority import Identity, check
from holdfast.errors import HoldfastError
from holdfast.runner.channel import Channel
from holdfast.runner.child import REPORT, report_decoder
from holdfast.runner.messages import Report
from holdfast.store import Store
from holdfast.stores.pipe import ANSWER, COMMAND, ERROR
from holdfast.wire import MSGPACK


def relay(channel: Channel, store: Store, identity: Identity) -> Report | None:
    """Until the child reports, which is its last word, or its end of the channel closes.

    What is neither a command nor a report did not come from our side of the child, and the channel
    is of no use any more.
    """
    while (frame := channel.receive()) is not None:
        kind, data = frame
        try:
            if kind == REPORT:
                return report_decoder.decode(data)
            if kind != COMMAND:
                return None
            channel.send(*_answer(data, store, identity))
        except (OSError, msgspec.DecodeError):
            return None
    return None


def _answer(data: bytes, store: Store, identity: Identity) -> tuple[bytes, bytes]:
    try:
        command = MSGPACK.decode_command(data)
        check(identity, command)
        return ANSWER, MSGPACK.encode(store.execute(command))
    except HoldfastError as error:
        return ERROR, MSGPACK.encode_error(error)
