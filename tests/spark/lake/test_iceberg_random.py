"""Random attempts, zombies, lost responses and other writers on one Iceberg table."""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from icebergs import created, ids, opened, orders, write_file

from holdfast.spark.lake import append as appends
from holdfast.spark.lake.append import Append, append_once
from holdfast.spark.lake.files import Written
from holdfast.spark.lake.iceberg import IcebergTable, iceberg
from holdfast.spark.lake.iceberg_commit import OpenIcebergTable
from holdfast.spark.lake.table import CommitConflict, Identity, UnknownOutcome

COMMIT = OpenIcebergTable.append
STEPS = 40


class Crash(Exception):
    """The end of an attempt, as if its process had died."""


class Loads:
    """Loads of three rows each, whose attempts nothing but the table keeps apart."""

    def __init__(self, table: IcebergTable, chance: random.Random, patch: Any) -> None:
        self.table = table
        self.chance = chance
        self.number = 0
        """The number of the next load to succeed."""
        self.others: set[int] = set()
        """The rows of other writers."""
        self.held: list[tuple[Any, ...]] = []
        """Commits of attempts that are paused."""
        patch.setattr(appends, "_prepared", lambda _, opened, rows: opened)
        patch.setattr(appends, "_write", self._write)
        patch.setattr(appends.time, "sleep", lambda _: None)
        self._patch = patch
        self._interruptions = [self._other, self._resume, self._expire, self._delete]

    def attempt(self, fault: Callable[..., str] = COMMIT) -> None:
        """Attempt the next load."""
        number = self.number
        self._patch.setattr(OpenIcebergTable, "append", lambda *commit: fault(*commit))
        write = Append(
            identity=Identity("loads", number, f"id-{number}"),
            name=f"load-{number}",
            watermark=number,
            rows=object,
            check_rows=lambda rows: None,
            counted=number - 1,
            begin=lambda: lambda: None,
            reset="",
        )
        try:
            append_once(self.table, write)
        except (Crash, UnknownOutcome):
            return
        self.number += 1

    def _write(self, table: Any, opened: OpenIcebergTable, rows: Any, place: str) -> Written:
        start = 3 * int(place.split("/")[1].removeprefix("load-"))
        files = [
            write_file(opened, f"{place}/{one}.parquet", orders(one))
            for one in range(start, start + 3)
        ]
        return Written(files, 3, "test")

    def act(self) -> None:
        """Do something at random."""
        faults = [COMMIT, self._die, self._pause, self._lose, self._interrupt, self._die_later]
        acts: list[Callable[[], None]] = [partial(self.attempt, fault) for fault in faults]
        act = self.chance.choice([*acts, *self._interruptions, self._resume])
        act()

    def _die(self, *commit: Any) -> str:
        raise Crash

    def _die_later(self, *commit: Any) -> str:
        COMMIT(*commit)
        raise Crash

    def _pause(self, *commit: Any) -> str:
        self.held.append(commit)
        raise Crash

    def _lose(self, *commit: Any) -> str:
        self._patch.setattr(OpenIcebergTable, "append", COMMIT)
        COMMIT(*commit)
        raise UnknownOutcome("the response is lost")

    def _interrupt(self, *commit: Any) -> str:
        self._patch.setattr(OpenIcebergTable, "append", COMMIT)
        self.chance.choice(self._interruptions)()
        return COMMIT(*commit)

    def _resume(self) -> None:
        if self.held:
            commit = self.held.pop(self.chance.randrange(len(self.held)))
            try:
                COMMIT(*commit)
            except CommitConflict:
                return

    def _other(self) -> None:
        row = 1_000_000 + len(self.others) + self.chance.randrange(10**9)
        self.others.add(row)
        opened(self.table).table.append(pa.table({"id": [row], "country": ["FR"]}))

    def _delete(self) -> None:
        if self.others:
            row = self.others.pop()
            opened(self.table).table.delete(f"id = {row}")

    def _expire(self) -> None:
        found = opened(self.table).table
        current = found.current_snapshot()
        old = [one.snapshot_id for one in found.snapshots() if one != current]
        if old:
            chosen = self.chance.sample(old, self.chance.randint(1, len(old)))
            found.maintenance.expire_snapshots().by_ids(chosen).commit()


@pytest.mark.chaos
def test_each_row_is_in_the_table_once(
    tmp_path: Path, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(5 * rounds):
        place = tmp_path / str(seed)
        place.mkdir()
        uri = f"sqlite:///{place}/catalog.db"
        table = iceberg("sales.orders", catalog={"uri": uri, "warehouse": f"file://{place}/lake"})
        table.catalog().create_namespace("sales")
        with monkeypatch.context() as patch:
            loads = Loads(created(table), random.Random(seed), patch)
            for _ in range(STEPS):
                loads.act()
            while loads.held:
                loads._resume()
            loads.attempt()
            expected = [*range(3 * loads.number), *sorted(loads.others)]
            assert ids(table) == expected, f"seed {seed}"
