"""Commands around commands: carried out while something holds, or once only.

Whoever stands between a store and its clients wraps them; they do not cross the wire themselves.
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
    """The task instance has not ended, and its entry under `key` is this intent: its job is the one
    that counts."""

    scope: TaskScope
    key: str
    intent: str


class LiveWatch(msgspec.Struct, frozen=True, tag="watch"):
    """The watch is the newest of its watcher."""

    watch: Watch


Guard: TypeAlias = LiveAttempt | CurrentIntent | LiveWatch


class Guarded(Command[Any], frozen=True):
    """A command that is carried out only while the guard holds; StaleAttempt where it does not.

    The answer is its own. A write and the guard are one transaction.
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
    """A client's request. One client has one request under way, and numbers them from 1."""

    client: str
    number: int


class Once(Command[Any], frozen=True):
    """A write that a client may send again until it has the answer: it is carried out once.

    The answer, which is the command's own, is kept with the write, until the client's next
    request. A request older than that is StaleRequest. What failed has not been carried out, and
    is tried anew.
    """

    request: RequestId
    inner: Command[Any]

    @property
    def lengthy(self) -> bool:
        return self.inner.lengthy
