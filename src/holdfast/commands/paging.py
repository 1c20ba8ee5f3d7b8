"""Paging of lists that are longer than one answer of a server."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias, TypeVar, cast

import msgspec

from holdfast import commands as c
from holdfast import flow
from holdfast.errors import InvalidInput, StoreUnavailable, ValueTooLarge
from holdfast.model.entry import Page
from holdfast.portable.json_rules import MOST_LISTED

A = TypeVar("A")
Steps: TypeAlias = flow.Steps[c.Command[Any], A]

_TRIES = 10
LARGEST_PAGE = 8 * 2**20
"""Characters of values after which a server ends a page."""


def check_page(command: c.Command[Any]) -> None:
    """Raise InvalidInput where a command lists more than a server returns at once."""
    limit = _limit(command) if command.paged else 0
    if limit is None or limit > MOST_LISTED:
        raise InvalidInput(
            f"{type(command).__name__} requests "
            + ("everything" if limit is None else f"{limit:,} items"),
            hint=f"`limit` is {MOST_LISTED:,} at most; continue with `after` or `offset`",
        )


def bounded(command: c.Command[A]) -> c.Command[A]:
    """Return the command with a bound on the size of its answer, where that may be large."""
    if not command.sized:
        return command
    given = _max_size(command)
    given = LARGEST_PAGE if given is None else given
    return msgspec.structs.replace(command, max_size=min(given, LARGEST_PAGE))


def may_go_on(command: c.Command[Any], answer: Any) -> bool:
    """Return whether an answer may have been cut off for its size, if no `max_size` was given."""
    if not command.sized or _max_size(command) is not None:
        return False
    if isinstance(answer, Page):
        return answer.more
    return is_large(command, answer) and not (command.paged and len(answer) == _limit(command))


def is_large(command: c.Command[Any], answer: Sequence[Any]) -> bool:
    """Return whether items may have been cut off an answer for its size."""
    text = command.measured
    return text is not None and sum(len(text(item) or "") for item in answer) > LARGEST_PAGE


def in_pages(command: c.Command[A], ask: Callable[[c.Command[Any]], Any]) -> A:
    """Return the answer to a command, from several pages where necessary. It has no item twice, and
    every item that existed all the time. A command with `max_size` is sent as it is."""
    if command.sized and _max_size(command) is not None:
        return cast(A, ask(command))
    if isinstance(command, c.List):
        return cast(A, flow.run(_entries(command), ask))
    if command.identity is not None:
        return cast(A, flow.run(_rows(command), ask))
    if command.goes_on is not None:
        return cast(A, flow.run(_parts(command, *command.goes_on), ask))
    return cast(A, ask(command))


def _limit(command: Any) -> int | None:
    return cast(int | None, command.limit)


def _max_size(command: Any) -> int | None:
    return cast(int | None, command.max_size)


def each_page(command: c.List, take: Callable[[Page], None]) -> Steps[None]:
    """Request page after page, and pass each to `take`. A page begins after the last entry of the
    previous one, regardless of concurrent writes."""
    part = msgspec.structs.replace(command, max_size=LARGEST_PAGE)
    size, count = _size(command, 0), 0
    while True:
        page = yield msgspec.structs.replace(part, limit=size)
        take(page)
        count += len(page.found)
        ended = len(page.found) < size and not page.more
        if ended or count == command.limit:
            return
        last = page.found[-1]
        part = msgspec.structs.replace(part, offset=0, after=(last.scope, last.entry.key))
        # Shrink the page where values are large: a server reads all that might fit into a page.
        size = min(_size(command, count), 2 * len(page.found))


def _entries(command: c.List) -> Steps[Page]:
    pages: list[Page] = []
    yield from each_page(command, pages.append)
    found = tuple(one for page in pages for one in page.found)
    if command.after is not None:
        return Page(found, len(found))
    if command.limit is None and found:
        return Page(found, command.offset + len(found))
    return Page(found, pages[0].total)


def _parts(command: Any, field: str, value: Callable[[Any], Any]) -> Steps[tuple[Any, ...]]:
    """Read part after part, each starting after the last item of the previous one."""
    found: list[Any] = []
    part = command
    while True:
        answer = yield part
        found += answer
        if not is_large(command, answer):
            return tuple(found)
        part = msgspec.structs.replace(part, **{field: value(answer[-1])})


def _rows(command: Any) -> Steps[tuple[Any, ...]]:
    """Read page after page, each starting with the last row of the previous one. Where that row has
    changed, rows were added or removed before it, and everything is read again."""
    for _ in range(_TRIES):
        rows: list[Any] = []
        while True:
            again = bool(rows)
            size = min(MOST_LISTED, _size(command, len(rows)) + again)
            offset = command.offset + len(rows) - again
            page = yield msgspec.structs.replace(command, limit=size, offset=offset)
            if again and (not page or command.identity(page[0]) != command.identity(rows[-1])):
                break
            if again and len(page) == 1 and is_large(command, page):
                raise ValueTooLarge(
                    f"{type(command).__name__}: {command.identity(page[0])} has more than "
                    f"{LARGEST_PAGE:,} characters",
                    hint="values this large can no longer be written; delete it",
                )
            rows += page[again:]
            ended = len(page) < size and not is_large(command, page)
            if ended or not _size(command, len(rows)):
                return tuple(rows)
    raise StoreUnavailable(
        f"the items that {type(command).__name__} lists changed during every read",
        hint="try again, or request less with filters or a `limit`",
    )


def _size(command: Any, found: int) -> int:
    """Return the size of the next page."""
    return MOST_LISTED if command.limit is None else min(MOST_LISTED, command.limit - found)
