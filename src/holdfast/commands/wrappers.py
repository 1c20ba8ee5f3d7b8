"""Commands that wrap a command: executed only while a guard holds, or exactly once.

Layers between a store and its clients add them; they are never sent over the wire themselves.
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from holdfast.commands.base import Command
from holdfast.model.entry import TaskWriter
from holdfast.model.run import Watch
from holdfast.model.scope import TaskScope


class LiveAttempt(msgspec.Struct, frozen=True, tag="attempt"):
    """The attempt is the newest of its task instance, and has not ended."""

    writer: TaskWriter


class CurrentIntent(msgspec.Struct, frozen=True, tag="intent"):
    """The task instance has not ended, and its entry `key` is this intent: its job is current."""

    scope: TaskScope
    key: str
    intent: str


class LiveWatch(msgspec.Struct, frozen=True, tag="watch"):
    """The watch is the newest of its watcher."""

    watch: Watch


Guard: TypeAlias = LiveAttempt | CurrentIntent | LiveWatch


class Guarded(Command[Any], frozen=True):
    """A command that is executed only while the guard holds; StaleAttempt where it does not.

    Its answer is that of the inner command. A write and its guard are one transaction.
    """

    guard: Guard
    inner: Command[Any]

    @property
    def reads(self) -> bool:
        return self.inner.reads

    @property
    def repeatable(self) -> bool:
        return self.inner.repeatable

    @property
    def lengthy(self) -> bool:
        return self.inner.lengthy


class RequestId(msgspec.Struct, frozen=True):
    """The id of a client's request. A client has one request in progress and counts from 1."""

    client: str
    number: int


class Once(Command[Any], frozen=True):
    """A write that a client may retry until it has the answer: it is executed once.

    The answer, which is that of the inner command, is stored with the write, until the client's
    next request. An older request is a StaleRequest. A request that failed has had no effect, and
    is executed again.
    """

    request: RequestId
    inner: Command[Any]

    @property
    def lengthy(self) -> bool:
        return self.inner.lengthy
