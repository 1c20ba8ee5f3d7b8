"""Dates and durations of pendulum, as in most files written for Airflow."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

import msgspec
import pendulum
import pytest
from project import Project

from holdfast import commands as c
from holdfast.model.dag import DagSpec, Every
from holdfast.model.plain_types import base_datetime, base_timedelta, base_value

FILE = """
import pendulum
from holdfast.sdk import dag, task


@dag(
    start_date=pendulum.datetime(2026, 1, 31, tz="Europe/Vienna"),
    end_date=pendulum.datetime(2027, 1, 31, tz="UTC"),
    schedule=pendulum.duration(hours=6),
    dagrun_timeout=pendulum.duration(days=1, hours=2),
    default_args={"retry_delay": pendulum.duration(seconds=1), "retries": 1},
    catchup=False,
)
def sales():
    @task(execution_timeout=pendulum.duration(minutes=5))
    def load(task_store, ti):
        task_store.set("page", 1, retention=pendulum.duration(days=3))
        if ti.try_number == 1:
            raise RuntimeError("once")

    load()


sales()
"""


@pytest.mark.full
def test_a_file_with_pendulum_dates_runs(project: Project) -> None:
    project.write("sales.py", FILE)

    ended = project.holdfast("run", "sales.py", "--run-id", "monday")

    assert ended.status == 0, ended.err
    [listed] = project.store.execute(c.ListDags())
    spec = msgspec.json.decode(listed.spec, type=DagSpec)
    assert spec.start_date == datetime(2026, 1, 30, 23, tzinfo=UTC)
    assert spec.schedule == Every(timedelta(hours=6))
    shown = project.holdfast("state-store", "list", "--json")
    [entry] = json.loads(shown.out)["entries"]
    assert entry["expires_at"] is not None


@pytest.mark.parametrize(
    "moment",
    [
        pendulum.datetime(2026, 10, 25, 2, 30, tz="Europe/Vienna"),
        pendulum.datetime(2026, 10, 25, 2, 30, tz="Europe/Vienna", fold=0),
        pendulum.datetime(1, 1, 1, microsecond=7),
        pendulum.now(),
    ],
)
def test_a_pendulum_datetime_is_converted_unchanged(moment: pendulum.DateTime) -> None:
    plain = base_datetime(moment)

    assert type(plain) is datetime
    assert (plain, plain.utcoffset()) == (moment, moment.utcoffset())
    assert base_value(moment) == plain


@pytest.mark.parametrize(
    "span",
    [
        pendulum.duration(years=1, months=2, weeks=3, days=4, hours=5, microseconds=6),
        pendulum.duration(days=-1, seconds=3),
        pendulum.duration(),
    ],
)
def test_a_pendulum_duration_is_converted_unchanged(span: pendulum.Duration) -> None:
    plain = base_timedelta(span)

    assert type(plain) is timedelta
    assert plain.total_seconds() == span.total_seconds()


@pytest.mark.full
def test_a_value_that_cannot_be_registered_is_reported(project: Project) -> None:
    project.write(
        "odd.py",
        "from holdfast.sdk import DAG\nclass Odd: ...\nDAG('d').tags = (Odd(),)\n",
    )

    ended = project.holdfast("run", "odd.py")

    assert ended.status == 2
    assert "Odd" in ended.err and "cannot be sent or stored" in ended.err
