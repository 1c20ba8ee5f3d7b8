"""Reading and writing entries of task instances and assets.

`reader` and `writer` identify the caller. A task's attempt in them decides about fencing, and about
whose staged writes are visible.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Final, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from holdfast.commands.base import (
    MOST_WRITES,
    Category,
    Command,
    KeyCommand,
    ScopeCommand,
    check_count,
    count_within,
)
from holdfast.errors import InvalidInput
from holdfast.model.entry import Entry, Found, Page, TaskWriter, Writer
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.value import HELD_TEXT, check_key


class Get(KeyCommand[str | None], frozen=True):
    """Return the value's JSON text, or None where there is no live entry."""

    category = Category.READS_ENTRIES
    touches_entries = True

    reader: TaskWriter | None = None


class GetEntry(KeyCommand[Entry[str] | None], frozen=True):
    """Return the whole entry, or None."""

    category = Category.READS_ENTRIES
    touches_entries = True

    reader: TaskWriter | None = None


class TaskFilter(msgspec.Struct, frozen=True, tag="tasks"):
    """Task instances that match every field that is given."""

    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None


class AssetFilter(msgspec.Struct, frozen=True, tag="assets"):
    """Every asset."""


Where: TypeAlias = TaskScope | AssetScope | TaskFilter | AssetFilter


class List(Command[Page], frozen=True):
    """List live entries of a scope, or of all that a filter matches. Unknown scopes are errors."""

    category = Category.READS_ENTRIES
    touches_entries = True
    paged = True
    sized = True

    where: Where
    prefix: str = ""
    updated_since: datetime | None = None
    expiring_before: datetime | None = None
    limit: int | None = None
    offset: int = 0
    reader: TaskWriter | None = None
    after: tuple[StoreScope, str] | None = None
    """Continue after the entry of that scope and key, whether it still exists or not; in the list
    of one scope only the key counts. The total is then that of the page."""
    max_size: int | None = None
    """Limit in characters of values: the page ends with the entry that exceeds it."""

    @property
    def subject(self) -> StoreScope | None:
        return self.where if isinstance(self.where, TaskScope | AssetScope) else None

    def __post_init__(self) -> None:
        if self.after is None:
            return
        sort_key(*self.after)
        if isinstance(self.after[0], AssetScope) is not isinstance(
            self.where, AssetScope | AssetFilter
        ):
            raise InvalidInput(f"`after` is {self.after[0]}, which the list does not include")


def page_of(found: Sequence[Found], command: List) -> Page:
    """Return the page that a command asks for, out of all entries that it selects, in order."""
    if command.after is not None:
        whole = not isinstance(command.where, TaskScope | AssetScope)
        behind = sort_key(*command.after) if whole else command.after[1:]
        found = [
            one
            for one in found
            if (sort_key(one.scope, one.entry.key) if whole else (one.entry.key,)) > behind
        ]
    stop = None if command.limit is None else command.offset + command.limit
    page = tuple(found[command.offset : stop])
    return shortened(Page(page, len(found) if command.after is None else len(page)), command)


def shortened(page: Page, command: List) -> Page:
    """Cut a page off where it exceeds the command's `max_size`."""
    count = count_within((len(one.entry.value) for one in page.found), command.max_size)
    if count == len(page.found):
        return page
    return Page(page.found[:count], page.total if command.after is None else count, more=True)


def sort_key(scope: StoreScope, key: str) -> tuple[str | int, ...]:
    """Return the sort key of an entry in a list. Raise InvalidInput for an asset without a name."""
    if isinstance(scope, TaskScope):
        return scope.dag_id, scope.run_id, scope.task_id, scope.map_index, key
    if scope.name is None:
        raise InvalidInput(
            f"a list cannot continue after {scope}",
            hint="assets are ordered by name; give the name",
        )
    return scope.name, key


class Set(KeyCommand[int], frozen=True):
    """Write or overwrite an entry; return the new version. `on_success` stages it (assets only)."""

    category = Category.WRITES_ENTRIES
    touches_entries = True

    value: str
    writer: Writer
    expires_at: datetime | None = None
    if_version: int | None = None
    on_success: bool = False
    reservation: str = ""
    """The name under which the object that the value refers to was reserved."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_staging(self)
        if not self.on_success:
            check_not_held(self.scope, self.key, self.value)

    @property
    def repeatable(self) -> bool:
        return self.if_version is None

    def texts(self) -> Iterator[tuple[StoreScope, str, str]]:
        yield self.scope, self.key, self.value


class SetMany(ScopeCommand[int], frozen=True):
    """Write all of `values` (key, JSON text) or none, as one version; `MOST_WRITES` at most."""

    category = Category.WRITES_ENTRIES
    touches_entries = True

    values: tuple[tuple[str, str], ...]
    writer: Writer
    expires_at: datetime | None = None
    reservation: str = ""

    def __post_init__(self) -> None:
        check_count(f"entries of {self.scope}", len(self.values), MOST_WRITES, _IN_PARTS)
        values = tuple((check_key(key, self.scope), text) for key, text in self.values)
        force_setattr(self, "values", values)
        for key, text in values:
            check_not_held(self.scope, key, text)

    def texts(self) -> Iterator[tuple[StoreScope, str, str]]:
        yield from ((self.scope, key, text) for key, text in self.values)


_IN_PARTS: Final = 'write them in parts, or as one bulk load: `df.write.format("holdfast")`'


def check_not_held(scope: StoreScope, key: str, text: str) -> None:
    """Raise InvalidInput where the text stands for a staged value, which can only be staged."""
    if text == HELD_TEXT:
        raise InvalidInput(
            f"`{key}` of {scope} is the marker of a staged value that is still on its worker",
            hint="write the value itself; the accessors escape a dict that looks like the marker",
        )


def check_staging(command: Set | Advance) -> None:
    """Raise InvalidInput unless it is an attempt that stages, and for an asset."""
    if not command.on_success:
        return
    if isinstance(command.scope, TaskScope):
        raise InvalidInput(
            f"on_success=True for {command.scope}: only writes to assets can wait for success",
            hint="leave it out: a task's next attempt needs its entries at once",
        )
    if not isinstance(command.writer, TaskWriter) or command.writer.attempt is None:
        raise InvalidInput(
            f"on_success=True for {command.scope}: there is no attempt to wait for",
            hint="run inside a task, or `with connection.task_store(…).attempt() as attempt:`",
        )


class Advance(KeyCommand[str], frozen=True):
    """Set the entry to the larger of its value and `value`, both numbers or strings; return it."""

    category = Category.WRITES_ENTRIES
    touches_entries = True

    scope: AssetScope
    value: str
    writer: Writer
    on_success: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_staging(self)

    def texts(self) -> Iterator[tuple[StoreScope, str, str]]:
        yield self.scope, self.key, self.value


class Delete(KeyCommand[None], frozen=True):
    """Delete one entry; does nothing where there is none."""

    category = Category.WRITES_ENTRIES
    touches_entries = True

    writer: Writer


class Clear(ScopeCommand[None], frozen=True):
    """Delete every entry of the scope, or of all map indices of its task in its run."""

    category = Category.WRITES_ENTRIES
    touches_entries = True

    writer: Writer
    all_map_indices: bool = False
