"""The items of checkpointed work, and what each of them is called."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Any, Final, TypeVar

import msgspec

from holdfast.errors import InvalidInput, InvalidType
from holdfast.model.path_part import path_part

T = TypeVar("T")

LONGEST: Final = 160
"""Characters of a directory's name; file systems have 255 bytes, and Spark's files get more."""


def name_of(item: Any) -> str:
    """Text, a date or a path as it is written; numbers, lists and dicts as JSON."""
    if isinstance(item, PurePath):
        return str(item)
    try:
        plain = msgspec.to_builtins(item, order="deterministic")
        return plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()
    except (TypeError, ValueError, RecursionError):
        raise InvalidType(
            f"{item!r} is a {type(item).__name__}, which has no name that lasts",
            hint="pass name=, a function that gives each item a text that every attempt gives it",
        ) from None


def named(items: Iterable[T], name: Callable[[T], str]) -> dict[str, T]:
    """The items by name, in order; refused where two have the same."""
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise InvalidType(f"the items are {items!r}", hint="give a list of them")
    if not callable(name):
        raise InvalidType(f"name is {name!r}", hint="give a function that names an item")
    found: dict[str, T] = {}
    for item in items:
        called = name(item)
        if not isinstance(called, str):
            raise InvalidType(f"the name of {item!r} must be text, not {type(called).__name__}")
        if not called:
            raise InvalidInput(f"the name of {item!r} is empty")
        if called in found:
            raise InvalidInput(
                f"two items are called {called!r}: {found[called]!r} and {item!r}",
                hint="list each item once, or pass a name= that tells them apart",
            )
        found[called] = item
    return found


def directory_of(name: str) -> str:
    """A directory for the item of that name, and for no other, on any file system: as Spark names
    the directories of partitions."""
    return f"chunk={path_part(name, LONGEST)}"
