"""Checkpointed loops: a later attempt processes only the remaining items."""

from __future__ import annotations

import logging
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from hashlib import blake2b
from threading import Event, Thread
from typing import Any, Final, Self, TypeVar

from holdfast.accessor.task_store import TaskStore
from holdfast.errors import HoldfastError, InvalidInput, InvalidType, UnknownTaskInstance
from holdfast.model.value import check_key
from holdfast.spark.checkpoints.item import name_of, named

T = TypeVar("T")

INTERVAL: Final = 1.0
"""Maximum seconds for which completed items may be unrecorded."""
PER_ENTRY: Final = 2500
_BYTES: Final = 12
_LENGTH: Final = 16
"""Length of a digest as text. Among a million items, the chance of a collision is 1 in 10^17."""

log = logging.getLogger("holdfast")


def checkpointed(
    items: Iterable[T],
    task_store: TaskStore,
    *,
    key: str,
    name: Callable[[T], str] = name_of,
    retention: timedelta | None = None,
) -> Iterator[T]:
    """Yield the items that no earlier attempt has done, for a loop over them.

    An item is done when the loop requests the next one. Completed items are recorded in the entries
    `key/0`, `key/1`, …, once in an interval and when the loop ends, however it ends. Items are
    identified by their names, so that the list may differ between attempts.
    """
    record = Record(task_store, key, retention)
    return _rest(named(items, name), record)


def _rest(items: dict[str, T], record: Record) -> Iterator[T]:
    digests = {digest(name): item for name, item in items.items()}
    if len(digests) < len(items):
        raise InvalidInput("two items have the same digest", hint="pass another name=")
    record.say(len(digests), len(digests.keys() & record.done))
    with record:
        for one, item in digests.items():
            if one not in record.done:
                yield item
                record.add(one)


def digest(name: str) -> str:
    hashed = blake2b(name.encode(errors="surrogatepass"), digest_size=_BYTES)
    return urlsafe_b64encode(hashed.digest()).decode()


class Record:
    """The completed items, in entries of a task store, each a concatenation of digests.

    A separate thread writes new digests, so that a long item does not delay the record of those
    before it, nor a slow store the work.
    """

    def __init__(self, task_store: TaskStore, key: str, retention: timedelta | None) -> None:
        if not isinstance(task_store, TaskStore):
            raise InvalidType(
                "checkpointed work is recorded in a task store, not in "
                f"{type(task_store).__name__}",
                hint="checkpointed(items, task_store, key=…)",
            )
        check_key(key)
        self.key = key
        self._store = task_store
        self._retention = retention
        self.order = self._read()
        self.done = set(self.order)
        self._written = len(self.order)
        self._failure: HoldfastError | None = None
        self._leaving = Event()
        self._thread = Thread(target=self._write_on, name=f"checkpoint {key}", daemon=True)

    def _read(self) -> list[str]:
        found: list[str] = []
        while len(found) % PER_ENTRY == 0:
            number = len(found) // PER_ENTRY
            try:
                text = self._store.get(f"{self.key}/{number}")
            except UnknownTaskInstance:
                break  # a script's first write creates it
            if text is None:
                break
            found += self._digests(number, text)
        return found

    def _digests(self, number: int, text: Any) -> list[str]:
        if not isinstance(text, str) or not text or len(text) % _LENGTH:
            raise InvalidInput(
                f"`{self.key}/{number}` of the task store is not a record of checkpointed work",
                hint="choose another key, or delete that entry",
            )
        return [text[at : at + _LENGTH] for at in range(0, len(text), _LENGTH)]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        self._leaving.set()
        self._thread.join()
        try:
            self._write()
        except HoldfastError as failure:
            if error is None:
                raise
            # The reason for leaving the loop matters more; unrecorded items are done again.
            log.warning("%s: the last items could not be recorded: %s", self.key, failure.message)

    def say(self, items: int, skipped: int) -> None:
        """Log how many of the items are skipped, if any are recorded."""
        if self.done:
            gone = len(self.done) - skipped
            log.info(
                "%s: skipping %s of %s items, completed by an earlier attempt%s",
                *(self.key, f"{skipped:,}", f"{items:,}"),
                f"; {gone:,} other records match no item" if gone else "",
            )

    def add(self, one: str) -> None:
        """Add a completed item, to be recorded within an interval. Raise the error of an earlier
        write."""
        if self._failure is not None:
            raise self._failure
        self.order.append(one)
        self.done.add(one)

    def _write_on(self) -> None:
        while not self._leaving.wait(INTERVAL):
            try:
                self._write()
            except HoldfastError as failure:
                self._failure = failure
                return

    def _write(self) -> None:
        known = len(self.order)
        if known == self._written:
            return
        for number in range(self._written // PER_ENTRY, -(-known // PER_ENTRY)):
            part = self.order[number * PER_ENTRY : min((number + 1) * PER_ENTRY, known)]
            self._store.set(f"{self.key}/{number}", "".join(part), retention=self._retention)
        self._written = known
