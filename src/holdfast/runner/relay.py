"""A supervisor's side of the pipe: carries out what a child asks for, and hears its report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import msgspec

from holdfast import command as c
from holdfast import run_command as r
from holdfast import wire
from holdfast.entry import TaskWriter
from holdfast.errors import HoldfastError, NotSupported
from holdfast.run import Watch
from holdfast.runner.channel import Channel
from holdfast.runner.child import REPORT, report_decoder
from holdfast.runner.messages import Report
from holdfast.scope import TaskScope
from holdfast.store import Store
from holdfast.stores.pipe import ANSWER, COMMAND, ERROR

Permit: TypeAlias = Callable[[c.Command[Any]], bool]

_READS = (
    *(c.Get, c.GetEntry, c.List, c.History, c.ListAssets, c.Now),
    *(r.GetResults, r.AliasAssets, r.RunEvents, r.ListAssetEvents, r.GetRun),
)
_WRITES = (c.Set, c.SetMany, c.Advance, c.Delete, c.Clear, c.Rewind, r.PutResult)


def reads(command: c.Command[Any]) -> bool:
    """What any child may ask."""
    return isinstance(command, _READS)


def of_attempt(writer: TaskWriter) -> Permit:
    """What an attempt may ask: to read, and to write as itself and to itself."""

    def permit(command: c.Command[Any]) -> bool:
        if reads(command):
            return getattr(command, "reader", None) in (None, writer)
        if not isinstance(command, _WRITES) or command.writer != writer:
            return False
        scope = getattr(command, "scope", writer.scope)
        return not isinstance(scope, TaskScope) or scope == writer.scope

    return permit


def of_watcher(watch: Watch) -> Permit:
    """What a watcher may ask: to read, and to report events."""

    def permit(command: c.Command[Any]) -> bool:
        return reads(command) or (isinstance(command, r.Emit) and command.watch == watch)

    return permit


def relay(channel: Channel, store: Store, permit: Permit) -> Report | None:
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
            channel.send(*_answer(data, store, permit))
        except (OSError, msgspec.DecodeError):
            return None
    return None


def _answer(data: bytes, store: Store, permit: Permit) -> tuple[bytes, bytes]:
    try:
        command = wire.decode_command(data)
        if not permit(command):
            name = type(command).__name__
            raise NotSupported(
                f"{name}: this process may not do this",
                hint="a task writes to its own stores while it runs; callbacks and imports do not",
            )
        return ANSWER, wire.encode_answer(store.execute(command))
    except HoldfastError as error:
        return ERROR, wire.encode_error(error)
