"""Commands of a bulk load: entries of any number of scopes that take effect together.

A load is filled in parts, from anywhere and in any order, and is not visible meanwhile. Finishing
it applies the parts that are listed, all or none, and drops the others.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final, TypeAlias

import msgspec

from holdfast.commands.base import Category, Command, check_count
from holdfast.errors import Forbidden, InvalidInput, InvalidType
from holdfast.model.entry import ApiWriter, Writer
from holdfast.model.scope import AssetScope, StoreScope
from holdfast.model.value import (
    as_reference,
    check_key,
    check_reference,
    fits,
    is_in_place,
    parse,
    reference_in,
    shown,
    too_large,
)
from holdfast.portable.identifier import check_id

log = logging.getLogger("holdfast")

LONGEST_LOAD: Final = timedelta(days=1)
"""A load that was started longer ago than this, and not finished, is dropped for the next one."""
MOST_ADDED: Final = 50_000
"""Maximum number of entries, and of scopes, that are added to a load at once."""
MOST_PARTS: Final = 100_000
_HIGHEST: Final = 2**62

NewEntry: TypeAlias = tuple[str, str, datetime | None]
"""Key, JSON text and expiry time."""


class ScopeEntries(msgspec.Struct, frozen=True):
    """New entries of one scope, as JSON text in any formatting."""

    scope: StoreScope
    entries: tuple[NewEntry, ...]

    def __post_init__(self) -> None:
        is_asset = isinstance(self.scope, AssetScope)
        for key, _, expires_at in self.entries:
            check_key(key, self.scope)
            if is_asset and expires_at is not None:
                raise InvalidInput(
                    f"`{key}` of {self.scope}: entries of assets do not expire",
                    hint="leave `expires_at` out",
                )


class StartLoad(Command[None], frozen=True):
    """Start a load, under a name that its writer has chosen. Does nothing where it exists."""

    category = Category.LOADS
    touches_entries = True
    lengthy = True

    load: str
    writer: Writer

    def __post_init__(self) -> None:
        check_id("the name of a load", self.load, 64)


class AddToLoad(Command[None], frozen=True):
    """Add entries to a part of a load that its writer has started.

    Each is checked as by `Set`; the error names the first invalid entry, and none is stored.
    """

    category = Category.LOADS
    touches_entries = True
    repeatable = False

    load: str
    part: int
    first: int
    """The number of entries that the part has already."""
    lots: tuple[ScopeEntries, ...]
    writer: Writer
    max_value_bytes: int = 0
    """The maximum size of a value's JSON text; a task may exceed it. 0: no limit."""
    as_kept: bool = False
    """Values come from a store in their stored form, references among them, and may have any size.
    Only people may send these, not tasks."""

    def __post_init__(self) -> None:
        check_count(f"scopes of the load {self.load}", len(self.lots), MOST_ADDED)
        entries = sum(len(lot.entries) for lot in self.lots)
        check_count(f"entries of the load {self.load}", entries, MOST_ADDED)
        for name, number in (("part", self.part), ("first", self.first)):
            if not 0 <= number <= _HIGHEST:
                raise InvalidInput(
                    f"`{name}` of the load {self.load} is {number}", hint=f"from 0 to {_HIGHEST}"
                )

    def texts(self) -> Iterator[tuple[StoreScope, str, str]]:
        yield from ((lot.scope, key, text) for lot in self.lots for key, text, _ in lot.entries)

    def checked(self) -> Iterator[tuple[StoreScope, list[NewEntry]]]:
        """Yield the entries of each scope, with their values in stored form. Raise an error that
        names the first entry that is invalid."""
        if self.as_kept and not isinstance(self.writer, ApiWriter):
            raise Forbidden(
                f"{self.writer} may not load values in stored form",
                hint="use `holdfast state-store import` or `copy`, with an editor's token",
            )
        for lot in self.lots:
            scope = lot.scope
            yield scope, [(key, self._kept(scope, key, text), at) for key, text, at in lot.entries]

    def _kept(self, scope: StoreScope, key: str, text: str) -> str:
        try:
            value = _from_store(text) if self.as_kept else parse(text)
        except (InvalidInput, InvalidType) as error:
            where = f"`{key}` of {scope}"
            raise type(error)(f"{where}: {error.message}", hint=error.hint) from None
        if not self.as_kept and not fits(value, self.max_value_bytes):
            excess = too_large(value, self.max_value_bytes, f"`{key}` of {scope}")
            if isinstance(self.writer, ApiWriter):
                raise excess
            log.warning("%s", excess.message)
        return value


def _from_store(text: str) -> str:
    """Return the stored form of a value from a store. A reference must look exactly like one of
    ours; anything else is a user's value."""
    value = parse(text)
    if value == text:
        return value
    found = reference_in(text)
    if found is not None and as_reference(found, is_in_place(text)) == text:
        check_reference("the value", text)
        return text
    return parse(shown(text))


class FinishLoad(Command[int], frozen=True):
    """Apply these parts (number, count of entries), all or none, as one version of each scope;
    return the number of entries. Other parts are dropped.

    Unknown task instances are registered, in external runs.
    """

    category = Category.LOADS
    touches_entries = True
    repeatable = False
    lengthy = True

    load: str
    parts: tuple[tuple[int, int], ...]
    writer: Writer

    def __post_init__(self) -> None:
        check_count(
            f"parts of the load {self.load}", len(self.parts), MOST_PARTS, "load with fewer tasks"
        )


class DropLoad(Command[None], frozen=True):
    """Drop a load; does nothing where there is none."""

    category = Category.LOADS
    fenced = False
    touches_entries = True
    lengthy = True

    load: str
    writer: Writer
