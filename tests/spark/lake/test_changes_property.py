"""Incremental reads of tables with random histories: exactly the rows that were appended, or an
error where rows were changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from test_changes_delta import Table as Delta
from test_changes_delta import ids as delta_ids
from test_changes_delta import merge
from test_changes_iceberg import Table as Iceberg
from test_changes_iceberg import catalog as catalog  # a fixture
from test_changes_iceberg import ids as iceberg_ids
from test_changes_iceberg import properties as properties  # a fixture
from test_changes_iceberg import rows

from holdfast.errors import TableChanged
from holdfast.spark.lake import changes
from holdfast.spark.lake.changes import Position

SEEDS = range(6)
STEPS = 25


def delta_operations(random: Random) -> dict[str, Callable[[Delta], Any]]:
    some = random.randrange(40)
    some_more = random.randrange(40), random.randrange(40)
    return {
        "append": lambda t: t.write(*some_more, schema_mode="merge"),
        "append again": lambda t: t.write(some, schema_mode="merge"),
        "insert": lambda t: merge(t, some, some + 100).when_not_matched_insert_all().execute(),
        "upsert": lambda t: merge(t, some).when_matched_update_all().execute(),
        "delete": lambda t: t.delta.delete(f"id = {some}"),
        "compact": lambda t: t.delta.optimize.compact(),
        "order": lambda t: t.delta.optimize.z_order(["id"]),
        "overwrite": lambda t: t.write(some, mode="overwrite", schema_mode="overwrite"),
        "restore": lambda t: t.version and t.delta.restore(random.randrange(t.version)),
        "checkpoint": lambda t: t.delta.create_checkpoint(),
        "column": add_column,
    }


def add_column(table: Delta) -> None:
    if "more" not in table.history.layout(None).schema.names:
        table.delta.alter.add_columns([Field("more", PrimitiveType("long"))])


@pytest.mark.parametrize("seed", SEEDS)
def test_a_delta_table_with_a_random_history(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    table = Delta(tmp_path / "table")
    table.write(1, 2)
    for _ in range(STEPS):
        operations = delta_operations(random)
        weights = [6 if name.startswith("append") else 1 for name in operations]
        [name] = random.choices([*operations], weights)
        operations[name](table)
    history = table.history
    positions = [history.find(version) for version in range(table.version + 1)]

    def content(position: Position) -> Counter[int]:
        at = DeltaTable(table.path, version=position.version)
        return Counter(pa.table(at.scan(["id"]).read_all())["id"].to_pylist())

    def removes(position: Position) -> bool:
        commit = history._read(position.version)
        assert commit is not None
        return any(one.dataChange for one in commit.removes)

    def read(paths: list[str]) -> list[int]:
        return delta_ids(table.path, paths)

    check(history, positions, content, removes, read, random)


def iceberg_operations(random: Random) -> dict[str, Callable[[Iceberg], Any]]:
    some = random.randrange(40)
    some_more = random.randrange(40), random.randrange(40)
    return {
        "append": lambda t: t.append(*some_more),
        "delete": lambda t: t.library.delete(f"id = {some}"),
        "overwrite": lambda t: t.library.overwrite(rows(some)),
        "overwrite where": lambda t: t.library.overwrite(rows(some), f"id = {some}"),
        "compact": lambda t: t.compact(),
        "rollback": roll_back(random),
    }


def roll_back(random: Random) -> Callable[[Iceberg], Any]:
    def go(table: Iceberg) -> None:
        lineage = [one.snapshot_id for one in table.history._lineage(table.newest.version)]
        chosen = random.choice(lineage)
        table.library.manage_snapshots().rollback_to_snapshot(chosen).commit()

    return go


@pytest.mark.filterwarnings("ignore:Delete operation did not match")
@pytest.mark.parametrize("seed", SEEDS)
def test_an_iceberg_table_with_a_random_history(
    catalog: Any, properties: dict[str, str], seed: int
) -> None:
    random = Random(seed)
    catalog.create_table("sales.orders", rows().schema)
    table = Iceberg(catalog, properties)
    table.append(1, 2)
    for _ in range(STEPS):
        operations = iceberg_operations(random)
        weights = [8 if name == "append" else 1 for name in operations]
        [name] = random.choices([*operations], weights)
        operations[name](table)
    history = table.history
    lineage = [*history._lineage(table.newest.version)][::-1]
    positions = [history._position(snapshot) for snapshot in lineage]

    def content(position: Position) -> Counter[int]:
        found = table.library.scan(snapshot_id=position.version).to_arrow()
        return Counter(found["id"].to_pylist())

    def removes(position: Position) -> bool:
        snapshot = table.library.snapshot_by_id(position.version)
        assert snapshot is not None
        summary = snapshot.summary
        assert summary is not None
        return summary.operation.value in ("delete", "overwrite")

    check(history, positions, content, removes, iceberg_ids, random)
    undone = {one.snapshot_id for one in table.library.snapshots()} - {p.version for p in positions}
    for id in undone:
        snapshot = table.library.snapshot_by_id(id)
        assert snapshot is not None
        with pytest.raises(TableChanged, match="rolled back"):
            changes.appended(history, history._position(snapshot), positions[-1])


def check(
    history: changes.History,
    positions: list[Position],
    content: Callable[[Position], Counter[int]],
    removes: Callable[[Position], bool],
    read: Callable[[list[str]], list[int]],
    random: Random,
) -> None:
    """Compare what was appended with the difference of the contents, for ranges of versions."""
    exact = 0
    for _ in range(30):
        first, last = sorted(random.choices(range(len(positions)), k=2))
        between = positions[first + 1 : last + 1]
        if any(map(removes, between)):
            with pytest.raises(TableChanged):
                changes.appended(history, positions[first], positions[last])
            continue
        found = changes.appended(history, positions[first], positions[last])
        before, after = content(positions[first]), content(positions[last])
        assert before <= after
        assert Counter(read([file.path for file in found.files])) == after - before
        assert found.rows == (after - before).total()
        exact += first < last
    assert exact
