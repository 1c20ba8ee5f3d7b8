"""The edition of chunked output: its identity, in the task store beside the record of chunks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any, Final
from uuid import uuid4

from holdfast.accessor.task_store import TaskStore
from holdfast.errors import Conflict, InvalidInput, UnknownTaskInstance
from holdfast.spark.checkpoints.checkpoint import digest

TRY: Final = "holdfast_try"
"""The partition column for the directories of tries, with a name that no column of a user has."""
_LENGTH: Final = 8


class Edition:
    """The entry `key/edition`: an id that all attempts share, the newest attempt, and the tries,
    which are the attempts that wrote where nothing can be renamed."""

    def __init__(self, task_store: TaskStore, key: str, retention: timedelta | None) -> None:
        self._store = task_store
        self._key = f"{key}/edition"
        self._retention = retention
        self._attempt = uuid4().hex[:_LENGTH]
        found = self._read() or {"id": uuid4().hex, "tries": []}
        try:
            self.id: str = found["id"]
            self._tries: list[str] = found["tries"]
        except (KeyError, TypeError):
            raise InvalidInput(
                f"`{self._key}` of the task store is not a record of written chunks",
                hint="choose another key, or delete that entry",
            ) from None

    def recorded(self, directories: Iterable[str], done: Iterable[str]) -> dict[str, str]:
        """Return the path of the content of each directory that is recorded as done; the last one
        if there are several."""
        paths = {
            digest(path): (directory, path)
            for directory in directories
            for path in (directory, *(self._path(directory, name) for name in self._tries))
        }
        return dict(paths[one] for one in done if one in paths)

    def begin(self) -> None:
        """Record that this attempt is the newest."""
        self._write()

    def path(self, directory: str) -> str:
        """Return a directory below, in which no other attempt writes, and record this attempt as a
        try."""
        if self._attempt not in self._tries:
            self._tries.append(self._attempt)
            self._write()
        return self._path(directory, self._attempt)

    def confirm(self) -> None:
        """Raise Conflict unless this attempt is the newest one that has begun."""
        if self._read() != self._value():
            raise Conflict(
                f"another attempt has started to write the chunks of `{self._key}`, or the entry "
                "no longer exists",
                hint="run one attempt at a time, and set retention= to more than a chunk takes",
            )
        self._write()  # keeps it from expiring

    def _path(self, directory: str, name: str) -> str:
        return f"{directory}/{TRY}={name}"

    def _value(self) -> dict[str, Any]:
        return {"id": self.id, "attempt": self._attempt, "tries": self._tries}

    def _read(self) -> Any:
        try:
            return self._store.get(self._key)
        except UnknownTaskInstance:
            return None  # a script's first write creates it

    def _write(self) -> None:
        self._store.set(self._key, self._value(), retention=self._retention)
