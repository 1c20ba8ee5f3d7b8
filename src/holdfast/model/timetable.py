"""The times at which the schedule of a DAG starts its runs.

A run represents the moment at which its schedule fires: that is its logical date and both ends of
its data interval.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec
from cronsim import CronSim, CronSimError

from holdfast.errors import InvalidInput
from holdfast.model.dag import Cron, DagSpec, Every, Once, spec_of
from holdfast.model.run import DagInfo, RunKind

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
MOMENT: Final = timedelta(microseconds=1)
EARLIEST: Final = datetime(1, 1, 2, tzinfo=UTC)
"""The first moment that is a date in every time zone."""
GRACE: Final = timedelta(minutes=5)
BEFORE_CLOCKS_CHANGE: Final = timedelta(hours=3)


class Slot(msgspec.Struct, frozen=True):
    """A run that a schedule asks for."""

    logical_date: datetime
    data_interval_start: datetime
    data_interval_end: datetime
    run_after: datetime

    @classmethod
    def at(cls, time: datetime) -> Slot:
        return cls(time, time, time, time)


def due(
    dag: DagSpec,
    scheduled_until: datetime | None,
    now: datetime,
    known_since: datetime | None = None,
) -> Slot | None:
    """Return the run that is due now, given the logical date of the newest one that was started,
    and since when the DAG is known (default: now).

    With `catchup` it is the oldest run that was missed, otherwise the newest.
    """
    slot = upcoming(dag, scheduled_until, now, known_since)
    return slot if slot is not None and slot.run_after <= now else None


def next_after(
    dag: DagSpec,
    scheduled_until: datetime | None,
    now: datetime,
    known_since: datetime | None = None,
) -> datetime | None:
    """Return when the next run is due, which may be in the past; None: never."""
    slot = upcoming(dag, scheduled_until, now, known_since)
    return None if slot is None else slot.run_after


def next_run_at(dag: DagInfo, now: datetime) -> datetime | None:
    """Return when the schedule starts the DAG's next run; None if it does not."""
    if dag.paused or dag.stale_at is not None:
        return None
    return next_after(spec_of(dag), dag.scheduled_until, now, dag.created_at)


def upcoming(
    dag: DagSpec, scheduled_until: datetime | None, now: datetime, known_since: datetime | None
) -> Slot | None:
    """Return the next run, whether it is due or not."""
    since = known_since or now
    if isinstance(dag.schedule, Once):
        time = None if scheduled_until else dag.start_date or since
    else:
        times = _firing_times(dag)
        time = None if times is None else _next(times, dag, scheduled_until, since, now)
    if time is None or (dag.end_date is not None and time > dag.end_date):
        return None
    return Slot.at(time)


def slots(dag: DagSpec, start: datetime, end: datetime) -> Iterator[Slot]:
    """Yield every run of the schedule from start to end, both included. Raise InvalidInput where
    the schedule has no regular times."""
    times = _firing_times(dag)
    if times is None:
        raise InvalidInput(
            f"DAG `{dag.dag_id}` is not scheduled at regular times, so it has no dates to backfill",
            hint="`holdfast runs trigger --logical-date` starts a run for a date",
        )
    time = times.first(max(start, dag.start_date or start))
    last = min(end, dag.end_date or end)
    while time is not None and time <= last:
        yield Slot.at(time)
        time = times.after(time)


def is_open(dag: DagSpec, now: datetime) -> bool:
    """Return whether now is neither before the DAG's start date nor after its end date."""
    return (dag.start_date or now) <= now <= (dag.end_date or now)


def run_id(kind: RunKind, time: datetime) -> str:
    """Return the id of a run, by its logical date or, without one, by the time of the request."""
    return f"{kind}__{time.astimezone(UTC).isoformat()}"


class _FiringTimes(ABC):
    """The moments at which a schedule fires, all in UTC."""

    def after(self, time: datetime) -> datetime | None:
        """Return the first moment later than `time`; None where there is none."""
        try:
            return self._after(time)
        except OverflowError:
            return None  # it is later than any date

    @abstractmethod
    def _after(self, time: datetime) -> datetime | None:
        """Return the first moment later than `time`. May raise OverflowError."""

    @abstractmethod
    def latest(self, time: datetime) -> datetime | None:
        """Return the last moment not later than `time`."""

    @abstractmethod
    def beginning(self, since: datetime) -> datetime | None:
        """Return the first moment of a DAG without a start date that is known since `since`."""

    def first(self, time: datetime) -> datetime | None:
        """Return the first moment not earlier than `time`."""
        return self.after(max(time, EARLIEST) - MOMENT)


class _CronTimes(_FiringTimes):
    """The moments of a cron expression, by the clocks of its time zone.

    An expression that names hours fires once for each of its times: once for all that the clocks
    skip, as soon as they go on; the first time for those that occur twice. An expression for every
    hour fires whenever the clocks show one of its minutes.
    """

    def __init__(self, schedule: Cron) -> None:
        try:
            self.zone = UTC if schedule.timezone == "UTC" else ZoneInfo(schedule.timezone)
            self.expression = _spelled_out(schedule.expression)
        except CronSimError as error:
            raise InvalidInput(
                f"`{schedule.expression}` is not a cron expression: {error}",
                hint="write five fields: minute, hour, day of the month, month, day of the week",
            ) from None
        except (ZoneInfoNotFoundError, ValueError):
            raise InvalidInput(
                f"`{schedule.timezone}` is not a time zone", hint="use a name such as Europe/Berlin"
            ) from None

    def _after(self, time: datetime) -> datetime | None:
        # Where clocks are set back, an hour occurs twice and cronsim may return its first
        # occurrence.
        for found in CronSim(self.expression, time.astimezone(self.zone)):
            if (moment := found.astimezone(UTC)) > time:
                return moment
        return None

    def latest(self, time: datetime) -> datetime | None:
        # With microseconds, cronsim counts the second itself as past.
        local = time.astimezone(self.zone).replace(microsecond=1)
        earlier = (time - BEFORE_CLOCKS_CHANGE).astimezone(self.zone)
        if earlier.utcoffset() != local.utcoffset():
            # Backwards, cronsim finds moments of a repeated hour that it skips forwards.
            local = earlier.replace(microsecond=1)
        before = next(CronSim(self.expression, local, reverse=True), None)
        if before is None:
            return None
        found = before.astimezone(UTC)
        while (later := self.after(found)) is not None and later <= time:
            found = later
        return found

    def beginning(self, since: datetime) -> datetime | None:
        """Return the previous moment if it has just passed, otherwise the next one."""
        latest, following = self.latest(since), self.after(since)
        if latest is None or following is None:
            return following
        return latest if since - latest <= max((following - latest) / 10, GRACE) else following


def _spelled_out(expression: str) -> str:
    """Return the expression with its minutes and hours as lists, or `*` for every hour: like
    Debian's cron, cronsim handles clock changes by whether one of these fields begins with `*`."""
    times = CronSim(expression, EPOCH)
    minutes, hours = (",".join(map(str, sorted(field))) for field in (times.minutes, times.hours))
    _, _, _, *days = times.parts
    return " ".join([minutes, "*" if len(times.hours) == 24 else hours, *days])


class _IntervalTimes(_FiringTimes):
    """Moments at a fixed interval from an origin on."""

    def __init__(self, schedule: Every, start: datetime | None) -> None:
        self.start = start
        self.origin = start or EPOCH
        self.interval = schedule.interval
        if self.interval <= timedelta(0):
            raise InvalidInput(f"the interval of a schedule must be positive, not {self.interval}")

    def _after(self, time: datetime) -> datetime | None:
        steps = (time - self.origin) // self.interval + 1
        return self.origin + (max(steps, 0) if self.start else steps) * self.interval

    def latest(self, time: datetime) -> datetime | None:
        if self.start is not None and time < self.start:
            return None
        return self.origin + (time - self.origin) // self.interval * self.interval

    def beginning(self, since: datetime) -> datetime | None:
        return self.latest(since)


def _firing_times(dag: DagSpec) -> _FiringTimes | None:
    """Return when a DAG's schedule fires; None where time alone starts no run, or only one."""
    if isinstance(dag.schedule, Cron):
        return _CronTimes(dag.schedule)
    if isinstance(dag.schedule, Every):
        return _IntervalTimes(dag.schedule, dag.start_date)
    return None


def _next(
    times: _FiringTimes,
    dag: DagSpec,
    scheduled_until: datetime | None,
    since: datetime,
    now: datetime,
) -> datetime | None:
    # The start date may have been moved since.
    if scheduled_until is not None and (dag.start_date or scheduled_until) <= scheduled_until:
        following = times.after(scheduled_until)
    elif dag.start_date is not None:
        following = times.first(dag.start_date)
    else:
        following = times.beginning(since)
    latest = None if dag.catchup else times.latest(now)
    if following is None or latest is None:
        return following
    return max(following, latest)
