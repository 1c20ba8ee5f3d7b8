"""The watermark of an incremental load, and its value in the asset store."""

from __future__ import annotations

import binascii
import struct
from base64 import b64decode, b64encode
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Final, NamedTuple, Self

import msgspec

from holdfast.errors import InvalidInput
from holdfast.model.load_chain import Chain
from holdfast.spark.loads.cursor import Cursor, Value

GROUPS: Final = 32
"""Maximum number of groups of remembered rows, each of which is forgotten as a whole."""


class Bound(NamedTuple):
    """The lower end of a range of cursor values."""

    value: Any
    closed: bool
    """Whether the value itself is in the range."""

    def rank(self) -> tuple[Any, bool]:
        """Return a sort key: of two ranges, the one with the higher bound begins later."""
        return self.value, not self.closed


def latest(bounds: Iterable[Bound | None]) -> Bound | None:
    """Return the lower bound of the intersection of the ranges; None if it has none."""
    return max((bound for bound in bounds if bound), key=Bound.rank, default=None)


class Group(NamedTuple):
    """Hashes of loaded rows, whose cursor values go up to `to`."""

    to: Any
    keys: tuple[int, ...]


class Memory(NamedTuple):
    """All rows that have been loaded from `since` on, by the hash of their identity."""

    columns: dict[str, str]
    """The columns of the identity, and their kinds."""
    since: Bound | None
    groups: tuple[Group, ...]

    def keys(self) -> list[int]:
        return [key for group in self.groups for key in group.keys]

    def with_load(self, since: Bound | None, loaded: list[tuple[Value, int]]) -> Self:
        """Add the rows of another load, and forget those before `since`."""
        added = sorted(row for row in loaded if since is None or row[0] >= since.value)
        size = -(-len(added) // GROUPS) or 1
        parts = [added[start : start + size] for start in range(0, len(added), size)]
        groups = [
            *(group for group in self.groups if since is None or group.to >= since.value),
            *(Group(part[-1][0], tuple(key for _, key in part)) for part in parts),
        ]
        return self._replace(since=since, groups=tuple(_merged(groups)))


def _merged(groups: list[Group]) -> list[Group]:
    """Merge the smallest neighbors until there are at most `GROUPS` groups."""
    groups = sorted(groups)
    while len(groups) > GROUPS:
        sizes = [len(one.keys) + len(next_.keys) for one, next_ in pairwise(groups)]
        at = sizes.index(min(sizes))
        both = Group(groups[at + 1].to, groups[at].keys + groups[at + 1].keys)
        groups[at : at + 2] = [both]
    return groups


class TableMark(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a watermark that is a table's version has besides the version: `Position`."""

    id: str = ""
    commit: str = ""
    sequence: int = 0
    whole: bool = False
    """The load that wrote it had all rows of the version, not what was appended since another."""


class Watermark(NamedTuple):
    """The highest cursor value that is loaded."""

    value: Value
    memory: Memory | None = None
    table: TableMark | None = None
    """For a cursor that is the version of a table."""


class _Since(msgspec.Struct, frozen=True):
    value: str | int
    closed: bool = True


class _Seen(msgspec.Struct, frozen=True, omit_defaults=True):
    columns: dict[str, str]
    keys: list[tuple[str | int, str]]
    since: _Since | None = None


class _Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    cursor: str
    type: str
    value: str | int
    seen: _Seen | None = None
    table: TableMark | None = None
    load: Chain | None = None


def as_json(mark: Watermark, cursor: Cursor[Value], chain: Chain | None = None) -> Any:
    """Return the value to store: exact, and readable except for the hashes."""
    seen = None
    if (memory := mark.memory) is not None:
        since = memory.since and _Since(cursor.as_json(memory.since.value), memory.since.closed)
        seen = _Seen(
            memory.columns,
            [(cursor.as_json(group.to), _packed(group.keys)) for group in memory.groups],
            since,
        )
    value = cursor.as_json(mark.value)
    stored = _Stored(cursor.name, cursor.kind, value, seen, mark.table, chain)
    return msgspec.json.decode(msgspec.json.encode(stored))  # in the form that the store returns


def from_json(found: Any, cursor: Cursor[Value], where: str) -> Watermark:
    """Parse the stored value. Raise InvalidInput if it is not for this cursor."""
    try:
        stored = msgspec.convert(found, _Stored)
    except msgspec.ValidationError:
        shown = {"cursor": cursor.name, "type": cursor.kind, "value": "…"}
        raise InvalidInput(
            f"{where} is {str(found)[:60]}, which was not written by an incremental load",
            hint=f"use another key=, or set it to {shown}",
        ) from None
    if stored.type != cursor.kind or not cursor.is_called(stored.cursor):
        raise InvalidInput(
            f"{where} is for the cursor `{stored.cursor}` of the type {stored.type}, but this "
            f"load uses `{cursor.name}` of the type {cursor.kind}",
            hint="use another key= to load everything again under it, rewind it to a version that "
            "matches, or delete it and the data to start over",
        )
    value = cursor.given(where, stored.value)
    if stored.seen is None:
        return Watermark(value, table=stored.table)
    since = stored.seen.since
    bound = Bound(cursor.given(where, since.value), since.closed) if since else None
    try:
        groups = [(cursor.given(where, to), _unpacked(keys)) for to, keys in stored.seen.keys]
    except (binascii.Error, struct.error):
        raise InvalidInput(
            f'the "seen" part of {where} is damaged: it does not show which rows are loaded',
            hint="rewind it to a version that was written by a load",
        ) from None
    return Watermark(value, Memory(stored.seen.columns, bound, tuple(map(Group._make, groups))))


def _packed(keys: tuple[int, ...]) -> str:
    return b64encode(struct.pack(f">{len(keys)}q", *keys)).decode()


def _unpacked(text: str) -> tuple[int, ...]:
    packed = b64decode(text, validate=True)
    return struct.unpack(f">{len(packed) // 8}q", packed)
