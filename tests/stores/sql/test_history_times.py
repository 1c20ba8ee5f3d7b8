"""Times of entries and their history, by the database's own clock, and times out of range."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from holdfast import commands as c
from holdfast.errors import InvalidInput
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.stores.sql import SqlStore

ORDERS = AssetScope(name="orders")
LOAD = TaskScope("etl", "r1", "load")
ANNA = ApiWriter("anna")


def test_the_newest_version_has_the_time_of_the_entry(database_url: str) -> None:
    with SqlStore(database_url) as store:
        store.execute(c.DeclareAsset("orders"))
        store.execute(c.Set(ORDERS, "cursor", "1", ANNA))

        entry = store.execute(c.GetEntry(ORDERS, "cursor"))
        [step] = store.execute(c.History(ORDERS, "cursor"))

    assert entry is not None
    assert step.updated_at == entry.updated_at


def test_a_rewind_to_the_time_of_an_entry_finds_that_entry(database_url: str) -> None:
    with SqlStore(database_url) as store:
        store.execute(c.DeclareAsset("orders"))
        store.execute(c.Set(ORDERS, "cursor", "1", ANNA))
        entry = store.execute(c.GetEntry(ORDERS, "cursor"))
        store.execute(c.Set(ORDERS, "cursor", "2", ANNA))
        assert entry is not None

        store.execute(c.Rewind(ORDERS, "cursor", c.AtTime(entry.updated_at), ANNA))

        assert store.execute(c.Get(ORDERS, "cursor")) == "1"


FAR_WEST, FAR_EAST = timezone(timedelta(hours=-12)), timezone(timedelta(hours=12))


@pytest.mark.parametrize(
    "time",
    [
        datetime(9999, 12, 31, 23, tzinfo=FAR_WEST),
        datetime(1, 1, 1, tzinfo=FAR_EAST),
        datetime(2030, 1, 1),  # noqa: DTZ001
    ],
)
def test_a_time_that_could_not_be_read_back_is_refused(database_url: str, time: datetime) -> None:
    with SqlStore(database_url) as store:
        store.execute(c.RegisterTask(LOAD))

        with pytest.raises(InvalidInput, match="has no time zone|is out of range"):
            store.execute(c.Set(LOAD, "k", "1", ANNA, time))
        with pytest.raises(InvalidInput, match="has no time zone|is out of range"):
            store.execute(c.CreateRun(dag_id="etl", run_id="r2", logical_date=time))

        assert store.execute(c.List(LOAD)).found == ()
        assert [run.run_id for run in store.execute(c.ListRuns())] == ["r1"]


@pytest.mark.parametrize(
    "time", [datetime.max.replace(tzinfo=UTC), datetime(1, 1, 1, tzinfo=UTC)], ids=str
)
def test_the_first_and_the_last_time_are_read_back(database_url: str, time: datetime) -> None:
    with SqlStore(database_url) as store:
        store.execute(c.CreateRun(dag_id="etl", run_id="r1", logical_date=time))

        assert store.execute(c.GetRun("etl", "r1")).logical_date == time
