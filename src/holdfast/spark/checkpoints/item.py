"""The items of checkpointed work, and their names."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import PurePath
from typing import Any, Final, TypeVar

import msgspec

from holdfast.errors import InvalidInput, InvalidType
from holdfast.model.path_part import path_part

T = TypeVar("T")

LONGEST: Final = 160
"""Maximum length of a directory's name; file systems allow 255 bytes, and Spark's files add
some."""


def name_of(item: Any) -> str:
    """Return text, a date or a path as it is written; numbers, lists and dicts as JSON. Raise
    InvalidType for an item without a stable name."""
    if isinstance(item, PurePath):
        return str(item)
    try:
        plain = msgspec.to_builtins(item, order="deterministic")
        return plain if isinstance(plain, str) else msgspec.json.encode(plain).decode()
    except (TypeError, ValueError, RecursionError):
        raise InvalidType(
            f"{item!r} is a {type(item).__name__}, which has no stable name",
            hint="pass name=, a function that returns the same text for an item in every attempt",
        ) from None


def named(items: Iterable[T], name: Callable[[T], str]) -> dict[str, T]:
    """Return the items by name, in order. Raise InvalidInput for an empty or repeated name, and
    InvalidType for one that is not text."""
    if isinstance(items, str | bytes) or not isinstance(items, Iterable):
        raise InvalidType(f"the items are {items!r}", hint="pass a list")
    if not callable(name):
        raise InvalidType(
            f"name is {name!r}", hint="pass a function that returns the name of an item"
        )
    found: dict[str, T] = {}
    for item in items:
        called = name(item)
        if not isinstance(called, str):
            raise InvalidType(f"the name of {item!r} must be text, not {type(called).__name__}")
        if not called:
            raise InvalidInput(f"the name of {item!r} is empty")
        if called in found:
            raise InvalidInput(
                f"two items have the name {called!r}: {found[called]!r} and {item!r}",
                hint="list each item once, or pass a name= that distinguishes them",
            )
        found[called] = item
    return found


def directory_of(name: str) -> str:
    """Return a directory name unique to the item of that name, valid on any file system, in Spark's
    style for partitions."""
    return f"chunk={path_part(name, LONGEST)}"
