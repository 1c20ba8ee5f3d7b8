"""The tries of a backfill, and which of them counts below each path that it was saved to.

Paths are independent: a success below one does not affect what was saved below another, except for
quarantined rows, which count only as long as the data that they were found with.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, TypeAlias
from uuid import uuid4

import msgspec

from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import VersionConflict
from holdfast.model.load_record import BACKFILLS
from holdfast.spark.loads.directory_writer import Writing

NOTHING: Final[dict[str, Any]] = {}
"""The value of a backfill's own entry, and of a path's entry once nothing of it counts there."""
BACKFILLING: Final = "/backfilling/"
"""The identity of a backfill, and the paths of its tries, are stored as `orders/backfilling/NAME`,
its newest try below a path as `orders/backfilling/NAME/PLACE`."""


class Backfill(msgspec.Struct, frozen=True, omit_defaults=True):
    """A try of a backfill below a path: the newest one, or the one that counts."""

    tried: str = ""
    saved: str = ""
    """The digest of how it was saved."""
    aside: bool = False
    """Whether it holds the quarantined rows."""


Withdraw: TypeAlias = Callable[[str, str, Collection[str] | None], None]
"""Removes the output that a backfill of that identity has published below a path, except that of
some tries; None: only unpublished output."""


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
        self._id = ""
        self._begun: dict[str, tuple[Backfill, int]] = {}
        self._others: dict[str, str] = {}
        """The paths of earlier tries, without those of this try."""

    def begin(self, saved: Mapping[str, Backfill], withdraw: Withdraw) -> Writing | None:
        """Begin a try below these paths. Below other paths, end tries that have not succeeded.
        Return None without paths."""
        entry = self._store.entry(self._newest)
        former: dict[str, Any] = {"id": f"b{uuid4().hex}", "places": []}
        former = entry.value if entry else former
        self._id = former["id"]
        begun = {self._place_of(path): path for path in saved}
        before = {self._place_of(path): path for path in former["places"]}
        self._others = {place: path for place, path in before.items() if place not in begun}
        places = [*{**before, **begun}.values()]
        if former["places"] != places:
            known: dict[str, Any] = {"id": self._id, "places": places}
            self._store.set(self._newest, known, if_version=entry.version if entry else 0)
        for place, path in self._others.items():
            self._end(place, path, [*before, *begun], withdraw)
        self._begun = {}
        tried = uuid4().hex
        for place, path in begun.items():
            newest = msgspec.structs.replace(saved[path], tried=tried)
            self._begun[place] = newest, self._set(self._newest_at(place), newest)
        return Writing(self._id, tried, self._confirm) if saved else None

    def succeed(self, put: Callable[..., None], withdraw: Withdraw, quarantine: str | None) -> None:
        """Store with `put` that the try counts below its paths, if it is still the newest there,
        and remove the quarantined rows of earlier tries: below `quarantine`, and where their data
        is replaced.

        Outside an attempt these are separate writes: the entry of the data is written after that of
        the quarantined rows, and makes the try count.
        """
        for place, (newest, version) in self._begun.items():
            put(self._newest_at(place), msgspec.to_builtins(newest), if_version=version)
        for place, (newest, _) in reversed(self._begun.items()):
            put(self._counting_at(place), msgspec.to_builtins(newest))
        for place in self._outdated(quarantine):
            withdraw(self._id, self._others[place], ())
            put(self._newest_at(place), NOTHING)
            put(self._counting_at(place), NOTHING)
        put(self._counting, NOTHING)

    def _outdated(self, quarantine: str | None) -> list[str]:
        """Return the places where quarantined rows of earlier tries no longer count."""
        aside = quarantine and self._place_of(quarantine)
        found = {place: self._store.get(self._counting_at(place)) for place in self._others}
        counting = {place: msgspec.convert(one, Backfill) for place, one in found.items() if one}
        staying = {one.tried for one in counting.values() if not one.aside}
        return [
            place
            for place, one in counting.items()
            if one.aside and (place == aside or one.tried not in staying)
        ]

    def _confirm(self) -> None:
        """Raise VersionConflict unless this is still the newest try below each of its paths."""
        for place, (_, version) in self._begun.items():
            # By version: an attempt reads its own staged write, which may be of an earlier try.
            entry = self._store.entry(self._newest_at(place))
            if entry is None or entry.version != version:
                name = self._counting.rpartition("/")[2]
                raise VersionConflict(
                    f"a later try of load={name} for {self._store.binding.scope} has replaced "
                    "this one",
                    hint="run one backfill of a range at a time",
                )

    def _end(self, place: str, path: str, places: Collection[str], withdraw: Withdraw) -> None:
        """End the newest try below a path, unless it has succeeded.

        Its published output is removed only if no try counts there: it may have replaced the one
        that counts, and then takes its place. Its quarantined rows do not show that its data
        counts.
        """
        newest, counting = self._newest_at(place), self._counting_at(place)
        begun = self._store.get(newest)
        if begun is None or begun == self._store.get(counting):
            return
        # So that its success fails from here on, before it is determined what counts.
        self._set(newest, Backfill(uuid4().hex))
        found = self._store.get(counting)
        if found:
            withdraw(self._id, path, None)
            return
        counts = [self._store.get(self._counting_at(one)) or {} for one in places]
        alike = [one for one in counts if one.get("aside") == begun.get("aside")]
        withdraw(self._id, path, [one.get("tried", "") for one in alike])
        if found is None:
            self._store.delete(newest)
        else:
            self._store.set(newest, found)

    def _set(self, key: str, value: Backfill) -> int:
        return self._store.set_for_version(key, msgspec.to_builtins(value))

    def _newest_at(self, place: str) -> str:
        return f"{self._newest}/{place}"

    def _counting_at(self, place: str) -> str:
        return f"{self._counting}/{place}"


def backfills_at(
    store: AssetStore,
    key: str,
    keys: Collection[str],
    place: str,
    published: Callable[[str], Backfill | None],
) -> dict[str, list[Backfill]]:
    """Return the backfills that count below a path, with those of their tries that count.

    Below a path that a backfill does not know, as when data was moved or written without
    `new.save`, all its tries count that count anywhere. `published` returns the try that is there,
    if directories are renamed: one that failed may have replaced the one that counts.
    """
    prefix = key + BACKFILLS
    found = [one.removeprefix(prefix) for one in keys if one.startswith(prefix)]
    counting: dict[str, list[Backfill]] = {}

    def stored(at: str) -> Backfill | None:
        value = store.get(at)
        return None if value is None else msgspec.convert(value, Backfill)

    for name in dict.fromkeys(one.partition("/")[0] for one in found):
        newest = stored(f"{key}{BACKFILLING}{name}/{place}")
        if newest is None:
            of_it = [stored(prefix + one) for one in found if one.startswith(f"{name}/")]
            tries = [one for one in of_it if one and one.tried]
            tries += [Backfill()] if name in found else []
        else:
            counts = stored(f"{prefix}{name}/{place}") or Backfill()
            tries = [(newest != counts and published(name)) or counts] if counts.tried else []
        if tries:
            counting[name] = tries
    return counting
