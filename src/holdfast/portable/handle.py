"""State inside executors: handles to one store of a task or asset.

Spark ships this module, and those of ours that it imports, by value along with a handle: they need
nothing but the standard library, and a Python worker gets a copy of them with each Spark task.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from holdfast.errors import InvalidInput, InvalidType, MissingDependency, NotSupported
from holdfast.portable.client import ask
from holdfast.portable.json_rules import (
    MOST_LISTED,
    check_string,
    escaped,
    not_json,
    plain,
    reference,
    unescaped,
)
from holdfast.portable.retention import expires_at
from holdfast.portable.transport import Endpoint, shared

MOST_TOGETHER = 1000
LARGEST_TOGETHER = 2**20
"""Entries of a batch, and characters in them, at which the batch is sent."""
LONGEST_WAIT = 1.0
"""Seconds after which a batch is sent, when its next entry is set."""
HINT = (
    "the program that created the handle, or its server, must be running and reachable from "
    "Spark's executors; if these are on other hosts, set [api] advertise_url"
)


class HandleEntry(NamedTuple):
    """One entry of a store."""

    key: str
    value: Any
    version: int
    updated_at: datetime
    expires_at: datetime | None
    staged: bool
    """Not in effect yet: the attempt's own staged write, on top of the current version."""


class Handle:
    """The entries of one task instance or asset. A handle holds only a URL and a token that gives
    access to little more than these entries.

    Handles can be pickled, and connect on first use; all handles of a process share their
    connection. A write is durable when the method returns. While the server is unreachable, methods
    wait.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        scope: Mapping[str, Any],
        writer: Mapping[str, Any],
        offloading: str = "",
    ) -> None:
        """`scope` and `writer` have the form that they have in a command's JSON. `offloading` is
        the configuration in JSON of the worker-side backend that values are offloaded to, if there
        is one."""
        self._endpoint = endpoint
        self._scope = dict(scope)
        self._writer = dict(writer)
        self._offloading = offloading

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self} at {self._endpoint.url}>"

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value, or the default if there is no entry."""
        text = self._ask("Get", scope=self._scope, key=self._key(key))
        return default if text is None else self._value(key, text)

    def entry(self, key: str) -> HandleEntry | None:
        """Return the entry with its value, version and times; None if there is none."""
        found = self._ask("GetEntry", scope=self._scope, key=self._key(key))
        if found is None:
            return None
        expiry = found["expires_at"]
        return HandleEntry(
            key,
            self._value(key, found["value"]),
            found["version"],
            datetime.fromisoformat(found["updated_at"]),
            None if expiry is None else datetime.fromisoformat(expiry),
            found["staged"],
        )

    def keys(self) -> list[str]:
        """Return all keys, sorted."""
        return [found["key"] for found in self._list()]

    def items(self) -> list[tuple[str, Any]]:
        """Return all keys with their values, sorted by key."""
        return [(found["key"], self._value(found["key"], found["value"])) for found in self._list()]

    def delete(self, key: str) -> None:
        """Delete the entry; do nothing if there is none."""
        self._write("Delete", key=self._key(key))

    def _list(self) -> list[dict[str, Any]]:
        entries: list[dict[str, Any]] = []
        after, limit = None, MOST_LISTED
        while True:
            page = self._ask("List", where=self._scope, limit=limit, after=after)
            found = page["found"]
            entries += [one["entry"] for one in found]
            if len(found) < limit and not page["more"]:
                return entries
            limit = min(MOST_LISTED, 2 * len(found))
            after = found[-1]["scope"], found[-1]["entry"]["key"]

    def _set_many(self, texts: Mapping[str, str], **fields: Any) -> None:
        self._write("SetMany", values=list(texts.items()), **fields)

    def _write(self, command: str, **fields: Any) -> Any:
        return self._ask(command, once=True, scope=self._scope, writer=self._writer, **fields)

    def _ask(self, command: str, *, once: bool = False, **fields: Any) -> Any:
        if self._offloading:
            return self._ask_offloaded({"command": command, **fields})
        transport = shared(self._endpoint)
        return ask(transport, command, fields, once=once, who=str(self), hint=HINT)

    def _ask_offloaded(self, command: Mapping[str, Any]) -> Any:
        try:
            from holdfast.stores.offload import executor
        except ImportError as error:
            raise MissingDependency(
                f"the values of {self} are in a worker-side backend, which needs Holdfast on "
                f"Spark's executors: {error}",
                hint='pip install "holdfast-state[objects]" there, with the storage\'s credentials',
            ) from None
        url, token, retry_window = self._endpoint
        return executor.ask(url, token, retry_window, self._offloading, command)

    def _key(self, key: str) -> str:
        if not isinstance(key, str):
            raise InvalidType(f"a key must be text, not {type(key).__name__} for {self}")
        check_string(key, f"the key {key!r} for {self}")
        return key

    def _text(self, key: str, value: Any) -> str:
        self._key(key)
        try:
            kept = escaped(plain(value))
        except (InvalidInput, InvalidType) as error:
            raise type(error)(f"`{key}` of {self}: {error.message}", hint=error.hint) from None
        return json.dumps(kept, ensure_ascii=False, separators=(",", ":"))

    def _texts(self, values: Mapping[str, Any]) -> dict[str, str]:
        if not isinstance(values, Mapping):
            raise InvalidType(f"set_many takes a mapping, not {type(values).__name__}")
        return {key: self._text(key, value) for key, value in values.items()}

    def _value(self, key: str, text: str) -> Any:
        try:
            kept = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise not_json(f"`{key}` of {self}", error) from None
        if (found := reference(kept)) is not None:
            raise NotSupported(
                f"`{key}` of {self} is offloaded to {found}, which a handle cannot read",
                hint="read it in the task, and pass the value to Spark",
            )
        return unescaped(kept)


class TaskHandle(Handle):
    """The store of one task instance."""

    def __init__(
        self,
        endpoint: Endpoint,
        scope: Mapping[str, Any],
        writer: Mapping[str, Any],
        default_retention: timedelta,
        offloading: str = "",
    ) -> None:
        super().__init__(endpoint, scope, writer, offloading)
        self._default_retention = default_retention

    def __str__(self) -> str:
        scope = self._scope
        mapped = f"[{scope['map_index']}]" if scope["map_index"] >= 0 else ""
        return f"task {scope['dag_id']}/{scope['run_id']}/{scope['task_id']}{mapped}"

    def set(
        self,
        key: str,
        value: Any,
        *,
        retention: timedelta | None = None,
        if_version: int | None = None,
    ) -> None:
        """Write or overwrite the entry."""
        text, expiry = self._text(key, value), self._expiry(retention)
        self._write("Set", key=key, value=text, expires_at=expiry, if_version=if_version)

    def set_many(self, values: Mapping[str, Any], *, retention: timedelta | None = None) -> None:
        """Write all the entries, or none."""
        self._set_many(self._texts(values), expires_at=self._expiry(retention))

    def batch(self, *, retention: timedelta | None = None) -> Batch:
        """Return a batch that collects writes: `with handle.batch() as batch:`. See Batch."""
        self._expiry(retention)
        return Batch(
            self._text, lambda texts: self._set_many(texts, expires_at=self._expiry(retention))
        )

    def _expiry(self, retention: timedelta | None) -> str | None:
        try:
            expiry = expires_at(retention, self._default_retention, datetime.now(UTC))
        except (InvalidInput, InvalidType) as error:
            raise type(error)(f"{self}: {error.message}", hint=error.hint) from None
        return None if expiry is None else expiry.isoformat()


class AssetHandle(Handle):
    """The store of one asset."""

    def __str__(self) -> str:
        return f"asset `{self._scope.get('name') or self._scope['uri']}`"

    def set(
        self, key: str, value: Any, *, on_success: bool = False, if_version: int | None = None
    ) -> None:
        """Write or overwrite the entry; with `on_success`, only when the attempt succeeds."""
        text = self._text(key, value)
        self._write("Set", key=key, value=text, if_version=if_version, on_success=on_success)

    def set_many(self, values: Mapping[str, Any]) -> None:
        """Write all the entries, or none."""
        self._set_many(self._texts(values))

    def advance(self, key: str, value: str | float, *, on_success: bool = False) -> Any:
        """Move a number or string forward, never back, and return the resulting value."""
        text = self._text(key, value)
        standing = self._write("Advance", key=key, value=text, on_success=on_success)
        return self._value(key, standing)

    def batch(self) -> Batch:
        """Return a batch that collects writes: `with handle.batch() as batch:`. See Batch."""
        return Batch(self._text, self._set_many)


class Batch:
    """Writes that are sent together: a thousand or so, about once a second, and at the end of the
    block. They are durable once sent. An error in sending is raised by the `set` that triggered it,
    or at the end of the block; if the block itself fails, unsent writes are dropped."""

    def __init__(
        self, text: Callable[[str, Any], str], send: Callable[[Mapping[str, str]], None]
    ) -> None:
        self._text = text
        self._send = send
        self._pending: dict[str, str] = {}
        self._size = 0
        self._due = 0.0

    def set(self, key: str, value: Any) -> None:
        """Write or overwrite the entry when the batch is next sent."""
        text = self._text(key, value)
        if not self._pending:
            self._due = time.monotonic() + LONGEST_WAIT
        self._pending[key] = text
        self._size += len(key) + len(text)
        full = len(self._pending) >= MOST_TOGETHER or self._size >= LARGEST_TOGETHER
        if full or time.monotonic() >= self._due:
            self.flush()

    def flush(self) -> None:
        """Send the collected writes."""
        if self._pending:
            self._send(self._pending)
            self._pending = {}
            self._size = 0

    def __enter__(self) -> Batch:
        return self

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if error is None:
            self.flush()
