"""Store of a task process: every command is sent to the supervisor."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock, current_thread, main_thread
from typing import Any, TypeVar

import msgspec

from holdfast.commands import Command, KeyCommand
from holdfast.commands.paging import in_pages
from holdfast.errors import NotSupported, StoreUnavailable, ValueTooLarge
from holdfast.portable.transport import Endpoint
from holdfast.store import Store
from holdfast.wire.channel import Channel
from holdfast.wire.codec import MSGPACK, command_types
from holdfast.wire.purpose import Purpose

A = TypeVar("A")

COMMAND = b"C"
ANSWER = b"A"
ERROR = b"E"
ENDPOINT = b"H"


class PipeStore(Store):
    """Sends the commands of this process and its threads, one at a time, over one channel."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._lock = Lock()
        self._process = os.getpid()
        self._busy = False
        self._postponed: BaseException | None = None

    def __reduce__(self) -> Any:
        raise NotSupported(
            "the stores of a running task cannot be pickled",
            hint="use the handle() of the store, or pass the values that you read",
        )

    def supports(self, command: type[Command[Any]]) -> bool:
        return command in command_types()

    def execute(self, command: Command[A]) -> A:
        return in_pages(command, self._answer)

    def _answer(self, command: Command[A]) -> A:
        try:
            answer = self._ask(COMMAND, MSGPACK.encode(command))
        except ValueTooLarge as error:
            raise ValueTooLarge(f"{_shown(command)}: {error.message}", hint=error.hint) from None
        return MSGPACK.decode_answer(command, answer)

    def endpoint(self, purpose: Purpose = None) -> Endpoint:
        """Return the endpoint at which other processes reach the stores of this task while its
        attempt lives, or a job of the task does while its intent is current."""
        answer = self._ask(ENDPOINT, msgspec.msgpack.encode(purpose))
        # Not decoded into Endpoint directly, because msgspec would leave something in it that
        # cannot be pickled.
        return Endpoint(*msgspec.msgpack.decode(answer, type=tuple[str, str, float]))

    def _ask(self, kind: bytes, request: bytes) -> bytes:
        if os.getpid() != self._process:
            raise NotSupported(
                "this is a fork of the task's process, which has no connection to the supervisor",
                hint="use the stores in the process that runs the task",
            )
        with self._lock, self._undisturbed():
            answer, data = self._exchange(kind, request)
        if answer == ERROR:
            raise MSGPACK.decode_error(data)
        return data

    def interrupt(self, error: BaseException) -> None:
        """Raise the error in the main thread, which calls this, once it is not waiting for a
        response: an unread response would be taken for that of the next command."""
        if not self._busy:
            raise error
        self._postponed = error

    @contextmanager
    def _undisturbed(self) -> Iterator[None]:
        if current_thread() is not main_thread():
            yield
            return
        self._busy = True
        try:
            yield
        finally:
            self._busy = False
            postponed, self._postponed = self._postponed, None
            if postponed is not None:
                raise postponed

    def _exchange(self, kind: bytes, request: bytes) -> tuple[bytes, bytes]:
        try:
            self._channel.send(kind, request)
            frame = self._channel.receive()
        except OSError:
            frame = None
        if frame is None:
            raise StoreUnavailable(
                "the supervisor of this task no longer answers",
                hint="it has stopped, or the task closed its connection; the task will run again",
            )
        return frame


def _shown(command: Command[Any]) -> str:
    """Return the command's name, with its scope and key."""
    key = f"`{command.key}`" if isinstance(command, KeyCommand) else ""
    about = " of ".join(str(part) for part in (key, command.subject) if part)
    return f"{type(command).__name__} {about}".rstrip()
