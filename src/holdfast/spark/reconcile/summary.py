"""What a comparison found, in numbers."""

from __future__ import annotations

import msgspec


class Size(msgspec.Struct, frozen=True):
    """Some objects."""

    objects: int = 0
    bytes: int = 0


class Part(msgspec.Struct, frozen=True):
    """The objects of a dag or an asset."""

    name: str
    objects: int
    bytes: int


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """Objects by what they are, and references that lead nowhere."""

    named: Size
    """Some entry, step of a history or staged write refers to them."""
    queued: Size
    """The purge queue has them: reserved by a writer, or about to be deleted."""
    orphan: Size
    """Nothing knows of them, and they are older than the grace time."""
    young: Size
    """Nothing knows of them yet; they are left alone."""
    foreign: Size
    """Files between the objects that are named otherwise. They are never touched."""
    missing: int
    """References without an object."""
    elsewhere: int
    """References to objects that are not below the URL, which are not looked at."""
    dags: tuple[Part, ...]
    """The largest."""
    assets: tuple[Part, ...]
