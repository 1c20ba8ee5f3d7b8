"""The requests of a bulk load: entries of any number of scopes that take effect together.

A load is filled in parts, from anywhere and in any order, and nobody sees it. Finishing it puts
the parts that count into effect, all or none, and forgets the others.
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
"""A load that was begun longer ago than this, and not finished, makes way for the next."""
MOST_ADDED: Final = 50_000
"""Entries, and scopes, that are added to a load at once."""
MOST_PARTS: Final = 100_000
_HIGHEST: Final = 2**62

NewEntry: TypeAlias = tuple[str, str, datetime | None]
"""Key, JSON text, and when it expires."""


class Lot(msgspec.Struct, frozen=True):
    """New entries of one scope, in JSON as anyone may write it."""

    scope: StoreScope
    entries: tuple[NewEntry, ...]

    def __post_init__(self) -> None:
        lasting = isinstance(self.scope, AssetScope)
        for key, _, expires_at in self.entries:
            check_key(key, self.scope)
            if lasting and expires_at is not None:
                raise InvalidInput(
                    f"`{key}` of {self.scope}: entries of assets do not expire",
                    hint="leave `expires_at` out",
                )


class StartLoad(Command[None], frozen=True):
    """Begin a load, under a name that its writer has made up. Nothing happens where it has."""

    category = Category.LOADS
    touches_entries = True

    load: str
    writer: Writer

    def __post_init__(self) -> None:
        check_id("the name of a load", self.load, 64)

    @property
    def lengthy(self) -> bool:
        return True


class AddToLoad(Command[None], frozen=True):
    """Put entries into a part of a load that its writer has begun.

    Each is checked as a `Set` of it would be; the first that is bad is named, and none is kept.
    """

    category = Category.LOADS
    touches_entries = True

    load: str
    part: int
    first: int
    """How many entries the part has already."""
    lots: tuple[Lot, ...]
    writer: Writer
    max_value_bytes: int = 0
    """The largest JSON text of a value; a task's may be larger. 0: any size."""
    as_kept: bool = False
    """Values are as a store keeps them, references among them, and of any size: they come from one.
    Only people bring such, not tasks."""

    def __post_init__(self) -> None:
        check_count(f"scopes of the load {self.load}", len(self.lots), MOST_ADDED)
        entries = sum(len(lot.entries) for lot in self.lots)
        check_count(f"entries of the load {self.load}", entries, MOST_ADDED)
        for name, number in (("part", self.part), ("first", self.first)):
            if not 0 <= number <= _HIGHEST:
                raise InvalidInput(
                    f"`{name}` of the load {self.load} is {number}", hint=f"from 0 to {_HIGHEST}"
                )

    @property
    def repeatable(self) -> bool:
        return False

    def texts(self) -> Iterator[tuple[StoreScope, str, str]]:
        yield from ((lot.scope, key, text) for lot in self.lots for key, text, _ in lot.entries)

    def checked(self) -> Iterator[tuple[StoreScope, list[NewEntry]]]:
        """The entries of each scope, with their values as they are kept; the first that may not
        be is named."""
        if self.as_kept and not isinstance(self.writer, ApiWriter):
            raise Forbidden(
                f"{self.writer} may not load values as a store keeps them",
                hint="`holdfast state-store import` and `copy` do, with an editor's token",
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
    """What a store kept, as it keeps it. A reference has to look exactly like one of ours; all else
    is somebody's value."""
    value = parse(text)
    if value == text:
        return value
    place = reference_in(text)
    if place is not None and as_reference(place, is_in_place(text)) == text:
        check_reference("the value", text)
        return text
    return parse(shown(text))


class FinishLoad(Command[int], frozen=True):
    """Put these parts (number, and how many entries it has) into effect, all or none, as one
    version of each scope; answers how many entries that were. Other parts are dropped.

    Task instances that are not known are registered, in runs that are external.
    """

    category = Category.LOADS
    touches_entries = True

    load: str
    parts: tuple[tuple[int, int], ...]
    writer: Writer

    def __post_init__(self) -> None:
        check_count(
            f"parts of the load {self.load}", len(self.parts), MOST_PARTS, "load with fewer tasks"
        )

    @property
    def repeatable(self) -> bool:
        return False

    @property
    def lengthy(self) -> bool:
        return True


class DropLoad(Command[None], frozen=True):
    """Forget a load; nothing happens where there is none."""

    category = Category.LOADS
    fenced = False
    touches_entries = True

    load: str
    writer: Writer

    @property
    def lengthy(self) -> bool:
        return True
