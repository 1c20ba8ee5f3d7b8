"""Schedules: due runs, catchup, backfills and daylight saving time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.errors import InvalidInput
from holdfast.model.dag import AssetSpec, Cron, DagSpec, Every, OnAssets, Once, Schedule
from holdfast.model.run import RunKind
from holdfast.model.timetable import Slot, due, next_after, run_id, slots

HOUR = timedelta(hours=1)
NIGHTLY = Cron("0 3 * * *")


def utc(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def dag(
    schedule: Schedule | None,
    start: str | None = "2026-01-01",
    end: str | None = None,
    catchup: bool = False,
) -> DagSpec:
    return DagSpec(
        dag_id="etl",
        file="etl.py",
        tasks=(),
        schedule=schedule,
        start_date=utc(start) if start else None,
        end_date=utc(end) if end else None,
        catchup=catchup,
    )


def times(found: list[Slot]) -> list[str]:
    return [f"{slot.logical_date:%m-%d %H:%M}" for slot in found]


def test_the_logical_date_of_a_run_is_the_time_at_which_the_schedule_fires():
    slot = due(dag(NIGHTLY), None, utc("2026-01-05 04:00"))

    moment = utc("2026-01-05 03:00")
    assert slot == Slot(moment, moment, moment, moment)


def test_a_run_is_due_exactly_at_its_time():
    daily = dag(NIGHTLY)
    last, moment = utc("2026-01-04 03:00"), utc("2026-01-05 03:00")

    assert due(daily, last, moment - timedelta(microseconds=1)) is None
    assert due(daily, last, moment) == Slot.at(moment)
    assert due(daily, moment, moment) is None


def test_without_catchup_only_the_newest_missed_run_is_started():
    slot = due(dag(NIGHTLY), utc("2026-01-04 03:00"), utc("2026-02-01 12:00"))

    assert slot == Slot.at(utc("2026-02-01 03:00"))


def test_with_catchup_the_missed_runs_are_started_in_order_from_the_start_date():
    daily = dag(NIGHTLY, catchup=True)
    now = utc("2026-01-03 12:00")

    first = due(daily, None, now)
    second = due(daily, first.logical_date, now)
    third = due(daily, second.logical_date, now)

    assert times([first, second, third]) == ["01-01 03:00", "01-02 03:00", "01-03 03:00"]
    assert due(daily, third.logical_date, now) is None


def test_nothing_is_due_before_the_start_date():
    daily = dag(NIGHTLY, start="2026-03-01 03:00")

    assert due(daily, None, utc("2026-02-01")) is None
    assert next_after(daily, None, utc("2026-02-01")) == utc("2026-03-01 03:00")


@pytest.mark.parametrize("catchup", [False, True])
@pytest.mark.parametrize("schedule", [Cron("0 * * * *"), Every(HOUR)])
def test_a_start_date_that_is_moved_later_applies(schedule, catchup):
    hourly = dag(schedule, start="2027-01-01 05:00", catchup=catchup)
    fired, now = utc("2026-06-01 09:00"), utc("2026-06-01 12:00:30")

    assert due(hourly, fired, now) is None
    assert next_after(hourly, fired, now) == utc("2027-01-01 05:00")
    assert due(hourly, fired, utc("2027-01-01 05:00")) == Slot.at(utc("2027-01-01 05:00"))


def test_a_start_date_that_is_moved_back_starts_no_run_again():
    hourly = dag(Cron("0 * * * *"), start="2026-01-01", catchup=True)

    assert next_after(hourly, utc("2026-06-01 09:00"), utc("2026-06-01 09:30")) == utc(
        "2026-06-01 10:00"
    )


def test_nothing_is_due_after_the_end_date():
    daily = dag(NIGHTLY, end="2026-01-10 03:00", catchup=True)

    assert due(daily, utc("2026-01-09 03:00"), utc("2026-02-01")) is not None
    assert due(daily, utc("2026-01-10 03:00"), utc("2026-02-01")) is None
    assert next_after(daily, utc("2026-01-10 03:00"), utc("2026-02-01")) is None


def test_without_start_date_the_first_run_is_the_latest_missed_one():
    assert due(dag(NIGHTLY, start=None), None, utc("2026-01-05 03:30")) is not None


def test_without_start_date_a_run_missed_long_ago_is_skipped():
    daily = dag(NIGHTLY, start=None)

    assert due(daily, None, utc("2026-01-05 12:00")) is None
    assert next_after(daily, None, utc("2026-01-05 12:00")) == utc("2026-01-06 03:00")


def test_an_interval_is_counted_from_the_start_date():
    every = dag(Every(timedelta(hours=7)), start="2026-01-01 01:00")

    slot = due(every, None, utc("2026-01-01 16:00"))

    assert slot == Slot.at(utc("2026-01-01 15:00"))
    assert next_after(every, slot.logical_date, utc("2026-01-01 16:00")) == utc("2026-01-01 22:00")


def test_an_interval_without_start_date_starts_at_once_and_at_the_same_time_for_every_scheduler():
    hourly = dag(Every(HOUR), start=None)

    one = due(hourly, None, utc("2026-01-01 16:40"))
    other = due(hourly, None, utc("2026-01-01 16:50"))

    assert one == other == Slot.at(utc("2026-01-01 16:00"))


def test_an_interval_starts_no_earlier_than_the_start_date():
    every = dag(Every(HOUR), start="2026-01-01 01:30")

    assert due(every, None, utc("2026-01-01 01:00")) is None
    assert next_after(every, None, utc("2026-01-01 01:00")) == utc("2026-01-01 01:30")


def test_a_once_schedule_has_one_run():
    once = dag(Once())

    slot = due(once, None, utc("2026-02-01"))

    assert slot == Slot.at(utc("2026-01-01"))
    assert due(once, slot.logical_date, utc("2026-02-01")) is None


def test_a_once_schedule_without_start_date_runs_now():
    assert due(dag(Once(), start=None), None, utc("2026-02-01")) == Slot.at(utc("2026-02-01"))


@pytest.mark.parametrize("schedule", [None, OnAssets(AssetSpec("a", "a"))])
def test_a_dag_without_time_schedule_has_no_due_run(schedule):
    assert due(dag(schedule), None, utc("2026-02-01")) is None
    assert next_after(dag(schedule), None, utc("2026-02-01")) is None


def test_a_backfill_covers_both_its_ends():
    found = slots(dag(NIGHTLY), utc("2026-01-02 03:00"), utc("2026-01-04 03:00"))

    assert times(list(found)) == ["01-02 03:00", "01-03 03:00", "01-04 03:00"]


def test_a_backfill_stays_between_start_and_end_date():
    daily = dag(NIGHTLY, start="2026-01-03", end="2026-01-04 12:00")

    found = slots(daily, utc("2025-12-01"), utc("2026-02-01"))

    assert times(list(found)) == ["01-03 03:00", "01-04 03:00"]


def test_a_backfill_of_a_dag_without_time_schedule_is_refused():
    with pytest.raises(InvalidInput, match="`etl` is not scheduled at regular times"):
        list(slots(dag(Once()), utc("2026-01-01"), utc("2026-02-01")))


def test_a_nightly_run_stays_at_its_hour_when_the_clocks_change():
    berlin = dag(Cron("0 12 * * *", "Europe/Berlin"))

    found = list(slots(berlin, utc("2026-03-28"), utc("2026-03-30")))

    assert times(found) == ["03-28 11:00", "03-29 10:00"]


def test_a_run_in_the_skipped_hour_is_due_right_after_it():
    berlin = dag(Cron("30 2 * * *", "Europe/Berlin"))

    found = list(slots(berlin, utc("2026-03-28"), utc("2026-03-31")))

    assert times(found) == ["03-28 01:30", "03-29 01:00", "03-30 00:30"]


@pytest.mark.parametrize("minutes", ["*", "*/20", "0,20,40"])
def test_runs_in_the_skipped_hour_are_merged_into_one(minutes):
    berlin = dag(Cron(f"{minutes} 2 * * *", "Europe/Berlin"))

    found = list(slots(berlin, utc("2026-03-28 02:00"), utc("2026-03-29 23:00")))

    assert times(found) == ["03-29 01:00"]


def test_runs_in_the_repeated_hour_are_due_the_first_time():
    berlin = dag(Cron("*/20 2 * * *", "Europe/Berlin"))

    found = list(slots(berlin, utc("2026-10-25"), utc("2026-10-25 23:00")))

    assert times(found) == ["10-25 00:00", "10-25 00:20", "10-25 00:40"]


@pytest.mark.parametrize(
    ("one", "other"),
    [("*/30 */2 * * *", "0,30 0-23/2 * * *"), ("30 * * * *", "30 0-23 * * *")],
)
@pytest.mark.parametrize("day", ["2026-03-29", "2026-10-25"])
def test_equivalent_schedules_have_the_same_runs(one, other, day):
    first, last = utc(day) - HOUR, utc(f"{day} 23:00")

    found = [list(slots(dag(Cron(text, "Europe/Berlin")), first, last)) for text in (one, other)]

    assert found[0] == found[1]


def test_a_run_in_the_repeated_hour_is_due_once():
    berlin = dag(Cron("30 2 * * *", "Europe/Berlin"))

    found = list(slots(berlin, utc("2026-10-24"), utc("2026-10-26 12:00")))

    assert times(found) == ["10-24 00:30", "10-25 00:30", "10-26 01:30"]


def test_in_the_repeated_hour_the_first_occurrence_counts():
    berlin = dag(Cron("30 2 * * *", "Europe/Berlin"))

    slot = due(berlin, None, utc("2026-10-25 01:10"))

    assert slot == Slot.at(utc("2026-10-25 00:30"))


def test_hourly_runs_are_due_every_hour_when_the_clocks_change():
    hourly = dag(Cron("0 * * * *", "Europe/Berlin"))

    for day in ("2026-03-29", "2026-10-25"):
        found = [slot.run_after for slot in slots(hourly, utc(day), utc(f"{day} 23:00"))]
        assert all(after - before == HOUR for before, after in pairwise(found))
        assert len(found) == 24


@given(
    expression=st.sampled_from(
        ["30 2 * * *", "*/20 * * * *", "15 1-3 * * *", "0 */2 * * *", "*/20 2 * * *", "* 0 * * *"]
    ),
    zone=st.sampled_from(
        ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo", "UTC"]
    ),
    minute=st.integers(0, 365 * 24 * 60),
)
@example(expression="30 2 * * *", zone="Europe/Berlin", minute=297 * 24 * 60 + 70)
def test_the_newest_run_is_the_last_of_all_up_to_now(expression, zone, minute):
    spec = dag(Cron(expression, zone), start="2025-12-01")
    now = utc("2026-01-01") + timedelta(minutes=minute)

    newest = due(spec, None, now)

    assert newest == list(slots(spec, now - timedelta(days=3), now))[-1]
    assert next_after(spec, newest.logical_date, now) > now


@pytest.mark.parametrize("expression", ["every day", "61 * * * *", "* * *", "0 0 30 2 *"])
def test_the_error_for_a_bad_cron_expression_names_it(expression):
    with pytest.raises(InvalidInput, match="not a cron expression"):
        due(dag(Cron(expression)), None, utc("2026-01-01"))


def test_the_error_for_a_bad_time_zone_names_it():
    with pytest.raises(InvalidInput, match="`Europe/Atlantis` is not a time zone"):
        due(dag(Cron("0 0 * * *", "Europe/Atlantis")), None, utc("2026-01-01"))


def test_run_ids_contain_kind_and_time_in_utc():
    time = datetime(2026, 1, 1, 1, tzinfo=ZoneInfo("Europe/Berlin"))

    assert run_id(RunKind.SCHEDULED, time) == "scheduled__2026-01-01T00:00:00+00:00"
    assert run_id(RunKind.ASSET, time) == "asset_triggered__2026-01-01T00:00:00+00:00"


def test_a_dag_without_a_start_date_starts_when_it_was_first_saved():
    nightly, weekly = dag(NIGHTLY, start=None), dag(Cron("0 3 * * 3"), start=None, catchup=True)
    known = utc("2026-01-05 12:00")

    assert due(nightly, None, utc("2026-01-06 02:59"), known) is None
    for late in ("2026-01-06 03:00", "2026-01-06 11:00", "2026-01-07 02:59"):
        assert due(nightly, None, utc(late), known) == Slot.at(utc("2026-01-06 03:00"))
        assert next_after(nightly, None, utc(late), known) == utc("2026-01-06 03:00")
    assert due(nightly, None, utc("2026-01-08 12:00"), known) == Slot.at(utc("2026-01-08 03:00"))
    assert due(weekly, None, utc("2026-02-01"), known) == Slot.at(utc("2026-01-07 03:00"))


@pytest.mark.parametrize("minutes", range(0, 180, 5))
def test_the_newest_run_is_a_past_one_where_clocks_change_by_half_an_hour(
    minutes: int,
):
    hourly = dag(Cron("30 * * * *", "Australia/Lord_Howe"), start="2026-04-04")
    now = utc("2026-04-04 14:00") + timedelta(minutes=minutes)
    came = [slot.logical_date for slot in slots(hourly, utc("2026-04-04"), now)]

    slot = due(hourly, None, now)

    assert slot is not None and slot.logical_date == came[-1]


def test_a_once_schedule_has_the_same_time_for_every_scheduler():
    once, known = dag(Once(), start=None), utc("2026-01-05 12:00")

    found = [due(once, None, utc(now), known) for now in ("2026-01-05 12:01", "2026-02-01")]

    assert found == [Slot.at(known)] * 2
    assert due(once, known, utc("2026-02-01"), known) is None


@pytest.mark.parametrize("schedule", [NIGHTLY, Every(timedelta(days=1))], ids=str)
@pytest.mark.parametrize("until", [None, utc("2026-01-04 03:00")], ids=str)
def test_a_start_date_of_the_first_day_of_the_calendar_is_valid(
    schedule: Schedule, until: datetime | None
) -> None:
    slot = due(dag(schedule, "0001-01-01"), until, utc("2026-01-05 04:00"))

    assert slot is not None
    assert slot.logical_date.date() == utc("2026-01-05").date()


def test_a_backfill_from_the_first_day_of_the_calendar_begins_with_the_schedule() -> None:
    every = dag(Cron("0 3 * * *", "America/New_York"), None)

    assert len(list(slots(every, utc("0001-01-01"), utc("0001-01-04")))) == 2


@pytest.mark.parametrize("interval", [timedelta.max, timedelta(days=3_000_000)], ids=str)
def test_an_interval_that_ends_after_the_calendar_fires_once(interval: timedelta) -> None:
    schedule, now = dag(Every(interval)), utc("2026-01-05")

    first = due(schedule, None, now)

    assert first is not None
    assert first.logical_date == utc("2026-01-01")
    assert due(schedule, first.logical_date, now) is None
    assert next_after(schedule, first.logical_date, now) is None
