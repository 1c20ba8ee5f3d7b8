"""Limit on the series of metrics whose labels people choose."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.model.activity import Activity, WatcherActivity
from holdfast.model.figures import MOST_SERIES
from holdfast.model.pool import NO_LIMIT, Pool
from holdfast.model.run import Process, Unfinished
from holdfast.model.service import Service, ServiceKind
from holdfast.server import metrics
from holdfast.server.newest_loads import NewestLoad

MORE = range(MOST_SERIES + 10)


def series(text: bytes, family: str) -> dict[str, float]:
    """Return the values of a family by their labels."""
    lines = [line.rpartition(" ") for line in text.decode().splitlines()]
    found = {name: float(value) for name, _, value in lines if name.startswith(f"{family}{{")}
    return {name.removeprefix(family): value for name, value in found.items()}


def test_runs_of_further_dags_are_counted_as_those_of_others() -> None:
    found = metrics.of_runs(Unfinished(f"d{number}", 2, 1) for number in MORE)

    runs = series(found, "holdfast_runs")
    assert len(runs) == MOST_SERIES + 2
    further = len(MORE) - MOST_SERIES // 2
    assert runs['{dag_id="(other)",state="queued"}'] == 2 * further
    assert runs['{dag_id="(other)",state="running"}'] == further


@pytest.mark.parametrize(("slots", "total"), [(3, 30), (NO_LIMIT, NO_LIMIT)])
def test_the_slots_of_further_pools_are_added(slots: int, total: int) -> None:
    found = metrics.of_pools(
        Pool(name=f"p{number}", slots=slots, description="", used=2) for number in MORE
    )

    assert len(series(found, "holdfast_pool_slots")) == MOST_SERIES + 1
    assert series(found, "holdfast_pool_slots")['{pool="(other)"}'] == total
    assert series(found, "holdfast_pool_used_slots")['{pool="(other)"}'] == 20


def test_further_watchers_are_down_if_one_of_them_is() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    watchers = tuple(WatcherActivity(f"a{one}", "w", one != MORE[-1], at) for one in MORE)
    found = metrics.of_activity(
        Activity(tasks={}, dags=0, import_errors=0, watchers=watchers, undelivered_alerts=0)
    )

    others = '{asset="(other)",watcher="(other)"}'
    events = series(found, "holdfast_watcher_last_event_timestamp_seconds")
    assert len(series(found, "holdfast_watcher_up")) == len(events) == MOST_SERIES + 1
    assert series(found, "holdfast_watcher_up")[others] == 0
    assert events[others] == at.timestamp()


def test_further_services_are_as_old_as_the_oldest() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    found = metrics.of_services(
        Service(
            kind=ServiceKind.SCHEDULER,
            process=Process(f"host{number}", number, ""),
            started_at=at,
            seen_at=at,
            lease=timedelta(minutes=1),
            age=timedelta(seconds=number),
        )
        for number in MORE
    )

    ages = series(found, "holdfast_service_age_seconds")
    assert len(ages) == MOST_SERIES + 1
    assert ages['{host="(other)",process="(other)",service="(other)"}'] == MORE[-1]


def test_further_loads_are_combined() -> None:
    found = metrics.of_loads(
        NewestLoad(one, f"a{one}", "k", "load", "bigint", "1", 3, 1.5 + one, 10**6 * one, 1)
        for one in MORE
    )

    others = '{asset="(other)",key="(other)"}'
    assert len(series(found, "holdfast_load_rows")) == MOST_SERIES + 1
    assert series(found, "holdfast_load_rows")[others] == 30
    assert series(found, "holdfast_load_duration_seconds")[others] == 1.5 + MORE[-1]
    assert series(found, "holdfast_load_end_timestamp_seconds")[others] == MOST_SERIES
