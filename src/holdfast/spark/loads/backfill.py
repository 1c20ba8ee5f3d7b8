"""The tries of a backfill, and which of them counts below each path that it was saved to.

Paths are independent: a success below one changes nothing for what was saved below another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final
from uuid import uuid4

import msgspec

from holdfast.accessor import AssetStore, run
from holdfast.errors import VersionConflict
from holdfast.loadrecord import BACKFILLS
from holdfast.spark.loads.output import Writing

BACKFILLING: Final = "/backfilling/"
"""The identity of a backfill, and the paths that it was tried below, are stored as
`orders/backfilling/NAME`, its newest try below a path as `orders/backfilling/NAME/PLACE`."""


class Backfill(msgspec.Struct, frozen=True, omit_defaults=True):
    """A try of a backfill below a path: the newest one, or the one that counts."""

    tried: str = ""
    saved: str = ""
    """The digest of how it was saved."""


class Backfilling:
    """One backfill of an asset, and its tries."""

    def __init__(
        self, store: AssetStore, key: str, name: str, place_of: Callable[[str], str]
    ) -> None:
        name = name.removeprefix("load=")
        self._store = store
        self._place_of = place_of
        self._newest = f"{key}{BACKFILLING}{name}"
        self._counting = f"{key}{BACKFILLS}{name}"
        self._begun: dict[str, tuple[Backfill, int]] = {}

    def begin(
        self, saved: Mapping[str, str], withdraw: Callable[[str, str, Collection[str]], None]
    ) -> Writing | None:
        """Begin a try below these paths, each with the digest of how it is saved.

        Below other paths, end tries that have not succeeded: `withdraw` removes what they have
        published, given the backfill's identity, the path, and the tries that count.
        """
        entry = self._store.entry(self._newest)
        former: dict[str, Any] = {"id": f"b{uuid4().hex}", "places": []}
        former = entry.value if entry else former
        places = list(dict.fromkeys([*former["places"], *saved]))
        if former["places"] != places:
            known = {"id": former["id"], "places": places}
            self._store.set(self._newest, known, if_version=entry.version if entry else 0)
        for place in places:
            if place not in saved:
                self._end(former["id"], place, places, withdraw)
        self._begun = {}
        tried = uuid4().hex
        for place, digest in saved.items():
            newest = Backfill(tried, digest)
            self._begun[place] = newest, self._set(self._newest_at(place), newest)
        return Writing(former["id"], tried, self._confirm) if saved else None

    def succeed(self, put: Callable[..., None]) -> None:
        """Store with `put` that the try counts below its paths, if it is still the newest there."""
        for place, (newest, version) in self._begun.items():
            value = msgspec.to_builtins(newest)
            put(self._newest_at(place), value, if_version=version)
            put(self._counting_at(place), value)
        put(self._counting, {})

    def _confirm(self) -> None:
        """Raise VersionConflict unless this is still the newest try below each of its paths."""
        for place, (_, version) in self._begun.items():
            # By version: an attempt reads what it has staged, which an earlier try of it may be.
            entry = self._store.entry(self._newest_at(place))
            if entry is None or entry.version != version:
                name = self._counting.rpartition("/")[2]
                raise VersionConflict(
                    f"a later try at load={name}, for {self._store._scope}, replaces this one",
                    hint="let one backfill of a range run at a time",
                )

    def _end(
        self,
        identity: str,
        place: str,
        places: Collection[str],
        withdraw: Callable[[str, str, Collection[str]], None],
    ) -> None:
        """End the newest try below a path, unless it has succeeded."""
        newest, counting = self._newest_at(place), self._counting_at(place)
        begun = self._store.get(newest)
        if begun is None or begun == self._store.get(counting):
            return
        # So that its success fails from here on, before it is known what counts.
        self._set(newest, Backfill(uuid4().hex))
        counts = [self._store.get(self._counting_at(one)) or {} for one in places]
        withdraw(identity, place, [one.get("tried", "") for one in counts])
        if (found := self._store.get(counting)) is not None:
            self._store.set(newest, found)
        else:
            self._store.delete(newest)

    def _set(self, key: str, value: Backfill) -> int:
        return run(
            self._store._store, self._store._set(key, msgspec.to_builtins(value), False, None)
        )

    def _newest_at(self, place: str) -> str:
        return f"{self._newest}/{self._place_of(place)}"

    def _counting_at(self, place: str) -> str:
        return f"{self._counting}/{self._place_of(place)}"


def backfills_at(
    store: AssetStore,
    key: str,
    keys: Collection[str],
    place: str,
    published: Callable[[str], Backfill | None],
) -> dict[str, list[Backfill]]:
    """Find the backfills that count below a path, with the tries of them that do.

    Below a path that is not known of a backfill, as when data was moved or written without
    `new.save`, all its tries that count anywhere do. `published` tells which try is there, if
    directories are renamed: one that failed may have replaced the one that counts.
    """
    prefix = key + BACKFILLS
    found = [one.removeprefix(prefix) for one in keys if one.startswith(prefix)]
    counting: dict[str, list[Backfill]] = {}

    def stored(at: str) -> Backfill | None:
        value = store.get(at)
        return None if value is None else msgspec.convert(value, Backfill)

    for name in (one for one in found if "/" not in one):
        newest = stored(f"{key}{BACKFILLING}{name}/{place}")
        if newest is None:
            all_of_it = [stored(prefix + one) for one in found if f"{one}/".startswith(f"{name}/")]
            counting[name] = [one for one in all_of_it if one]
        elif counts := stored(f"{prefix}{name}/{place}"):
            counting[name] = [(newest != counts and published(name)) or counts]
    return counting
