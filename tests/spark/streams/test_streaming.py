"""Streaming queries on each kind of Spark.

Through Connect, the function of a batch runs in a process of the server, which has no Holdfast on
the cluster.
"""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import pytest
from events import Events, database, writes
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.utils import is_remote

import holdfast
from holdfast import Connection
from holdfast.accessor.task_store import TaskStore
from holdfast.errors import Conflict
from holdfast.spark.streams.batch import Batch
from holdfast.spark.streams.streaming import follow


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with holdfast.connect(database(tmp_path)) as connection:
        yield connection


@pytest.fixture
def events(spark: SparkSession, tmp_path: Path, connection: Connection) -> Events:
    return Events(spark, tmp_path, connection.asset_store(name="events", declare=True))


def writes_and_dies(place: Path, batch_id: int, die: Callable[[], None]) -> Any:
    """Return a function that dies once that batch is written, and not recorded."""
    write = writes(place)

    def write_and_die(df: DataFrame, batch: Batch) -> None:
        write(df, batch)
        if batch.id == batch_id:
            die()

    return write_and_die


def kill_this_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def die_in_a_worker(events: Events, store: TaskStore) -> None:
    """Kill the process of the server that runs the function of a batch."""
    with pytest.raises(StreamingQueryException):
        follow(events.start(writes_and_dies(events.place, 1, kill_this_process)), store)


def die_in_a_script(place: Path) -> None:
    """Kill this process, which is the driver."""
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    with holdfast.connect(database(place)) as connection:
        events = Events(builder.getOrCreate(), place, connection.asset_store(name="events"))
        events.start(writes_and_dies(place, 1, kill_this_process)).awaitTermination()


def test_each_batch_is_counted_once_whatever_dies(
    events: Events, connection: Connection, in_process: Callable[..., Any]
) -> None:
    store = connection.task_store(*"drt")
    events.land(10, 11, 12)
    if is_remote():
        die_in_a_worker(events, store)
    else:
        with pytest.raises(BrokenProcessPool):
            in_process(die_in_a_script, events.place)
    query = events.start(writes(events.place))
    follow(query, store)

    assert events.calls() == [0, 1, 1, 2]
    assert events.written() == [(0, 10), (1, 11), (2, 12)]
    assert events.assets.get("stream") == {"query": str(query.id), "batch": 2}
    progress = store.get("query")
    assert (progress["query"], progress["batch"], progress["rows"]) == (str(query.id), 2, 2)
    assert progress["processed_rows_per_second"] > 0

    # As if Spark had been killed when the batch was recorded, and not committed.
    for name in ("2", ".2.crc"):
        (events.place / "checkpoint/commits" / name).unlink()
    events.start(writes(events.place)).awaitTermination()

    assert events.calls() == [0, 1, 1, 2]

    shutil.rmtree(events.place / "checkpoint")
    with pytest.raises(Conflict, match="is not the one recorded for asset `events`") as caught:
        follow(events.start(writes(events.place)), store)

    assert "remove the output, and delete `stream` from the asset store" in caught.value.hint
    assert events.calls() == [0, 1, 1, 2]
