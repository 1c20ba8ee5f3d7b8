"""Summary of a comparison in numbers."""

from __future__ import annotations

import msgspec


class Size(msgspec.Struct, frozen=True):
    """The number and total size of some objects."""

    objects: int = 0
    bytes: int = 0


class Part(msgspec.Struct, frozen=True):
    """The objects of a dag or an asset."""

    name: str
    objects: int
    bytes: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Objects by state, and the number of references without an object."""

    named: Size
    """Objects that an entry, a step of a history or a staged write refers to."""
    queued: Size
    """Objects in the purge queue: reserved by a writer, or about to be deleted."""
    orphan: Size
    """Objects without a reference that are older than the grace time."""
    young: Size
    """Objects without a reference yet, within the grace time; they are left alone."""
    foreign: Size
    """Files between the objects with names of another form. They are never touched."""
    missing: int
    """References without an object."""
    elsewhere: int
    """References to objects that are not below the URL, which are not checked."""
    dags: tuple[Part, ...]
    """The largest dags by size."""
    assets: tuple[Part, ...]
