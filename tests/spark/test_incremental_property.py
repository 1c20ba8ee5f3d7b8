"""Whatever comes when, and whatever crashes: the parts together are one full load."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from loading import Table, connection, frame
from pyspark.sql import SparkSession

from holdfast import Connection
from holdfast.accessor import AssetStore
from holdfast.spark.loads.incremental import Load, incremental

LAG = 5
CRASHES = ("none", "none", "before the write", "in the write", "after the write")


class Crash(Exception):
    pass


class Batch(NamedTuple):
    """What comes to the source before the next load, and how that load fails, if it does."""

    rows: list[tuple[int, int]]
    """The id of each row, and how far its cursor is from the highest one that came before."""
    again: list[int]
    """Rows of before that come again, by how long ago they came."""
    crash: str


batches = st.lists(
    st.builds(
        Batch,
        rows=st.lists(st.tuples(st.integers(0, 3), st.integers(-LAG, 3)), max_size=5),
        again=st.lists(st.integers(1, 4), max_size=2),
        crash=st.sampled_from(CRASHES),
    ),
    min_size=1,
    max_size=4,
)


def load_all(spark: SparkSession, store: Connection, asset: str, came: list[Batch]) -> None:
    store.asset_store(name=asset, declare=True)
    source: list[tuple[int, int]] = []
    table = Table()
    for number, batch in enumerate([*came, Batch([], [], "none")]):
        highest = max((at for _, at in source), default=0)
        source += [source[-back] for back in batch.again if back <= len(source)]
        source += [(id_, highest + step) for id_, step in batch.rows]
        task = store.task_store(asset, str(number), "load")
        with suppress(Crash), task.attempt() as attempt:
            attempt_load(spark, attempt.asset_store(name=asset), source, table, batch.crash)

    assert table.rows() == sorted(set(source))


def attempt_load(
    spark: SparkSession, asset: AssetStore, source: list[Any], table: Table, crash: str
) -> None:
    load = incremental(frame(spark, source), asset, cursor="at", lag=LAG, primary_key="id")
    if crash == "before the write":
        raise Crash
    load.write(lambda new: write(load, table, crash, new))
    if crash == "after the write":
        raise Crash


def write(load: Load, table: Table, crash: str, new: Any) -> None:
    table.writer(load)(new)
    if crash == "in the write":
        raise Crash


def examples(number: int) -> settings:
    return settings(
        max_examples=number,
        deadline=None,
        phases=(Phase.explicit, Phase.reuse, Phase.generate),
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    )


@given(came=batches)
@examples(15)
def test_the_loads_together_are_one_full_load(
    local_spark: SparkSession, tmp_path: Path, came: list[Batch]
) -> None:
    with connection(tmp_path) as store:
        load_all(local_spark, store, uuid4().hex, came)


@pytest.mark.parametrize("crash", CRASHES[1:])
def test_the_loads_together_are_one_full_load_on_each_kind_of_spark(
    spark: SparkSession, tmp_path: Path, crash: str
) -> None:
    came = [
        Batch([(1, 3), (1, 3), (2, 1)], [], "none"),
        Batch([(1, -5), (2, 0), (3, 2)], [1, 3], crash),
        Batch([(1, -2)], [2], "none"),
    ]

    with connection(tmp_path) as store:
        load_all(spark, store, "events", came)
