"""Lists that are longer than a server gives at once: asked for page by page."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, TypeAlias, TypeVar, cast

import msgspec

from holdfast import colour
from holdfast import command as c
from holdfast import run_command as r
from holdfast.entry import AssetInfo, Found, Page
from holdfast.errors import InvalidInput, StoreUnavailable
from holdfast.plain import MOST_LISTED
from holdfast.run import AssetEvent, DagInfo, Run, TaskInstance

A = TypeVar("A")
Steps: TypeAlias = Generator[c.Command[Any], Any, A]

_LISTINGS = (
    c.List,
    c.ListAssets,
    r.ListDags,
    r.ListRuns,
    r.ListTaskInstances,
    r.ListAssetEvents,
)
_TRIES = 10
LARGEST_PAGE = 8 * 2**20
"""Characters of values after which a server ends a page."""


def check_page(command: c.Command[Any]) -> None:
    """Raise InvalidInput where a command lists more than a server gives at once."""
    if isinstance(command, (*_LISTINGS, c.ListExpired, c.TakeExpired)) and _is_long(command):
        raise InvalidInput(
            f"{type(command).__name__} asks for "
            + ("everything" if command.limit is None else f"{command.limit:,} items"),
            hint=f"`limit` is {MOST_LISTED:,} at most; go on with `after`, or `offset`",
        )


def bounded(command: c.Command[Any]) -> c.Command[Any]:
    """The command with a bound on the size of its answer, where that may be large."""
    if isinstance(command, c.List):
        given = LARGEST_PAGE if command.max_size is None else command.max_size
        return msgspec.structs.replace(command, max_size=min(given, LARGEST_PAGE))
    return command


def in_pages(command: c.Command[A], ask: Callable[[c.Command[Any]], Any]) -> A:
    """The answer to a command, where necessary from several pages. No item is in it twice, and
    none is left out that was there all the time."""
    if isinstance(command, c.List) and command.max_size is None:
        return cast(A, colour.run(_entries(command), ask))
    if isinstance(command, _LISTINGS) and _is_long(command):
        return cast(A, colour.run(_rows(command), ask))
    return cast(A, ask(command))


def _is_long(command: Any) -> bool:
    return command.limit is None or command.limit > MOST_LISTED


def _entries(command: c.List) -> Steps[Page]:
    """Each page begins behind the last entry of the one before, whatever is written meanwhile."""
    found: list[Found] = []
    size, total = _size(command, 0), 0
    part = command
    while True:
        page = yield msgspec.structs.replace(part, limit=size)
        found += page.found
        total = total or page.total
        ended = len(page.found) < size and not page.more
        if ended or len(found) == command.limit:
            break
        last = found[-1]
        part = msgspec.structs.replace(part, offset=0, after=(last.scope, last.entry.key))
        # Few where values are large: a server looks at all that might fit into a page.
        size = min(_size(command, len(found)), 2 * len(page.found))
    if command.after is not None:
        total = len(found)
    elif command.limit is None and found:
        total = command.offset + len(found)
    return Page(tuple(found), total)


def _rows(command: Any) -> Steps[tuple[Any, ...]]:
    """Each page begins with the last row of the one before. Where that is another row by now,
    something came or went before it, and all is read anew."""
    for _ in range(_TRIES):
        rows: list[Any] = []
        while True:
            again = bool(rows)
            size = min(MOST_LISTED, _size(command, len(rows)) + again)
            offset = command.offset + len(rows) - again
            page = yield msgspec.structs.replace(command, limit=size, offset=offset)
            if again and (not page or _identity(page[0]) != _identity(rows[-1])):
                break
            rows += page[again:]
            if len(page) < size or not _size(command, len(rows)):
                return tuple(rows)
    raise StoreUnavailable(
        f"what {type(command).__name__} lists changed each time while it was read",
        hint="ask again, or for less: with filters, or a `limit`",
    )


def _size(command: Any, found: int) -> int:
    """How large the next page is."""
    return MOST_LISTED if command.limit is None else min(MOST_LISTED, command.limit - found)


def _identity(row: AssetInfo | DagInfo | Run | TaskInstance | AssetEvent) -> Any:
    match row:
        case AssetInfo():
            return row.asset_id
        case DagInfo():
            return row.dag_id
        case Run():
            return row.dag_id, row.run_id
        case TaskInstance():
            return row.scope
        case AssetEvent():
            return row.asset, row.number
