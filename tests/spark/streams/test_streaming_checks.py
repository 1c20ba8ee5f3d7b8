"""Errors of streaming queries, on one kind of Spark, as they do not depend on it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from attempt import scope_of
from events import Events, database, writes
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast import Connection
from holdfast.accessor.task_store import TaskStore
from holdfast.errors import Conflict, InvalidType, NotFound, UnknownTaskInstance
from holdfast.model.entry import TaskWriter
from holdfast.spark.streams.batch import Batch, query_of
from holdfast.spark.streams.streaming import follow, foreach_batch
from holdfast.testing.memory_store import MemoryStore


@pytest.fixture
def connection(tmp_path: Path) -> Iterator[Connection]:
    with holdfast.connect(database(tmp_path)) as connection:
        yield connection


@pytest.fixture
def events(local_spark: SparkSession, tmp_path: Path, connection: Connection) -> Events:
    return Events(local_spark, tmp_path, connection.asset_store(name="events", declare=True))


@pytest.mark.full
def test_a_checkpoint_that_contradicts_the_asset_store_is_refused(
    events: Events, connection: Connection
) -> None:
    store = connection.task_store(*"drt")
    events.land(1, 2)
    follow(events.start(writes(events.place)), store)
    recorded = events.assets.get("stream")

    events.land(3)
    events.assets.set("stream", recorded | {"batch": 9})
    with pytest.raises(Conflict, match="is behind .* it is at batch 2, and batch 9 is recorded"):
        follow(events.start(writes(events.place)), store)

    events.assets.delete("stream")
    with pytest.raises(Conflict, match="is ahead .* it is at batch 2, and none is rec") as caught:
        follow(events.start(writes(events.place)), store)

    assert events.calls() == [0, 1]
    assert caught.value.hint.endswith(f"to {json.dumps(recorded)}")
    events.assets.set("stream", recorded)
    follow(events.start(writes(events.place)), store)
    assert events.calls() == [0, 1, 2]


def test_two_queries_do_not_record_in_one_key(events: Events, connection: Connection) -> None:
    store = connection.task_store(*"drt")
    events.land(1)

    def meanwhile(df: DataFrame, batch: Batch) -> None:
        events.assets.set("stream", {"query": "other", "batch": 0})

    with pytest.raises(Conflict, match="another query recorded a batch in `stream`"):
        follow(events.start(meanwhile), store)
    events.assets.set("stream", "mine")
    with pytest.raises(Conflict, match="is not the record of a streaming query's batch: 'mine'"):
        follow(events.start(meanwhile), store)


def test_an_error_in_the_function_is_sparks_own(events: Events, connection: Connection) -> None:
    events.land(1)

    with pytest.raises(StreamingQueryException, match="ZeroDivisionError"):
        follow(events.start(lambda df, batch: 1 / 0), connection.task_store(*"drt"))


@pytest.mark.full
def test_a_query_whose_progress_cannot_be_determined_is_stopped(events: Events) -> None:
    events.land(1, 2)
    query = events.start(lambda df, batch: time.sleep(3 * batch.id))
    unknown = TaskStore(MemoryStore(), scope_of("unknown"), TaskWriter(scope_of("unknown")))

    with pytest.raises(UnknownTaskInstance):
        follow(query, unknown)
    assert not query.isActive


def test_a_checkpoint_has_to_be_the_querys(local_spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="there is no checkpoint of a streaming query at"):
        query_of(local_spark, str(tmp_path))


def test_foreach_batch_takes_a_function(connection: Connection) -> None:
    assets = connection.asset_store(name="events", declare=True)

    with pytest.raises(InvalidType, match="calls a function for each batch, not a str"):
        foreach_batch(assets, cast(Any, "write"), checkpoint="/lake/checkpoint")
