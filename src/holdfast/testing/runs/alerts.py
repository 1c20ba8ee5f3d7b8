"""Alerts of failed runs, broken files and late assets, and their delivery."""

from __future__ import annotations

import json
from datetime import timedelta
from functools import partial
from typing import Any

import msgspec
import pytest

from holdfast import commands as c
from holdfast.errors import StaleAttempt
from holdfast.model.alert import Alert, AlertKind, AlertStatus, Channel
from holdfast.model.dag import DagSpec, TaskSpec
from holdfast.model.run import RunState
from holdfast.store import Store
from holdfast.testing import Clock
from holdfast.testing.runs.fixtures import RunFixtures
from holdfast.testing.runs.samples import (
    ANN,
    FIRST,
    MINUTE,
    ORDERS,
    ORDERS_CHANGED,
    ORDERS_SPEC,
    RUN,
    SECOND,
    at_once,
    claim,
    create,
    emit,
)

WEBHOOK = (Channel.WEBHOOK,)
BOTH = (Channel.WEBHOOK, Channel.CALLBACK)
HOUR = timedelta(hours=1)
NOW = timedelta(0)
TRACEBACK = "Traceback …\nImportError: no module"
LOADS_ORDERS = DagSpec(
    dag_id="sales",
    file="sales.py",
    tasks=(TaskSpec(task_id="load", operator="@task", outlets=(ORDERS_SPEC,)),),
)


def check(store: Store, **late_after: timedelta) -> Any:
    command = c.CheckConditions(channel=Channel.WEBHOOK, late_after=late_after, interval=NOW)
    return store.execute(command)


def take(store: Store, channel: Channel = Channel.WEBHOOK) -> list[Alert]:
    """Take all alerts that are due."""
    taken = []
    while (alert := store.execute(c.TakeAlert(channel=channel, lease=MINUTE))) is not None:
        taken.append(alert)
    return taken


def listed(store: Store) -> list[Alert]:
    found = store.execute(c.ListAlerts())
    return list(found)


def delivered(store: Store, alert: Alert) -> None:
    store.execute(c.FinishAlert(alert_id=alert.id, status=alert.status))


def failed(store: Store, alert: Alert, retry_after: timedelta | None) -> None:
    finish = c.FinishAlert(
        alert_id=alert.id, status=alert.status, error="refused", retry_after=retry_after
    )
    store.execute(finish)


def declare_late(store: Store, clock: Clock, *names: str) -> None:
    """Declare assets, `orders` by default, that have had no event for two hours."""
    for name in names or ("orders",):
        store.execute(c.DeclareAsset(name))
    clock.forward(2 * HOUR)


def fail_run(store: Store, *channels: Channel) -> None:
    create(store)
    claim(store)
    alert = c.NewAlert(channels or WEBHOOK, '{"dag_id": "sales"}')
    store.execute(c.FinishRun(*RUN, FIRST, RunState.FAILED, alert=alert))


def facts(alert: Alert) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(alert.facts)
    return found


class Alerts(RunFixtures):
    def test_the_end_of_a_run_raises_its_alert_once_for_each_channel(self, store: Store) -> None:
        alert = c.NewAlert(BOTH, '{"dag_id": "sales"}')
        create(store)
        claim(store)
        for _ in range(2):  # the response to the first may be lost
            store.execute(c.FinishRun(*RUN, FIRST, RunState.FAILED, alert=alert))

        found = [*take(store), *take(store, Channel.CALLBACK)]

        assert sorted(one.channel for one in found) == sorted(BOTH)
        assert {one.kind for one in found} == {AlertKind.RUN_FAILED}
        assert [facts(one) for one in found] == [{"dag_id": "sales"}] * 2

    def test_a_run_that_is_not_held_any_more_raises_no_alert(self, store: Store) -> None:
        create(store)
        claim(store)
        alert = c.NewAlert(WEBHOOK, "{}")

        with pytest.raises(StaleAttempt):
            store.execute(c.FinishRun(*RUN, SECOND, RunState.FAILED, alert=alert))

        assert listed(store) == []

    def test_an_alert_is_taken_by_one_until_its_lease_expires(
        self, store: Store, clock: Clock
    ) -> None:
        fail_run(store)

        first, meanwhile = take(store), take(store)
        clock.forward(MINUTE)
        again = take(store)

        assert ([one.tries for one in first], meanwhile) == ([1], [])
        assert [one.tries for one in again] == [2]

    def test_concurrent_takers_get_each_alert_once(self, store: Store) -> None:
        create(store)
        claim(store)
        many = c.NewAlert(WEBHOOK * 20, "{}")
        store.execute(c.FinishRun(*RUN, FIRST, RunState.FAILED, alert=many))
        taken: list[int] = []

        def take_some() -> None:
            taken.extend(one.id for one in take(store))

        assert at_once([take_some] * 6) == [None] * 6
        take_some()  # what was locked at that moment

        assert sorted(taken) == sorted(one.id for one in listed(store))

    def test_new_alerts_are_taken_before_those_that_failed(
        self, store: Store, clock: Clock
    ) -> None:
        fail_run(store)
        [failing] = take(store)
        failed(store, failing, NOW)
        declare_late(store, clock)
        clock.forward(MINUTE)
        check(store, orders=HOUR)

        kinds = [one.kind for one in take(store)]

        assert kinds == [AlertKind.ASSET_LATE, AlertKind.RUN_FAILED]

    def test_withdrawn_alerts_are_not_taken_and_not_counted(
        self, store: Store, clock: Clock
    ) -> None:
        declare_late(store, clock)
        check(store, orders=HOUR)
        fail_run(store, *BOTH)

        store.execute(c.WithdrawAlerts(Channel.WEBHOOK))

        assert take(store) == []
        assert len(take(store, Channel.CALLBACK)) == 1
        assert store.execute(c.GetActivity()).undelivered_alerts == 1
        check(store, orders=HOUR)  # the channel is back
        assert [one.kind for one in take(store)] == [AlertKind.ASSET_LATE]

    def test_only_alerts_of_the_given_channels_are_taken(self, store: Store) -> None:
        fail_run(store, *BOTH)

        assert [one.channel for one in take(store, Channel.CALLBACK)] == [Channel.CALLBACK]

    def test_a_delivered_alert_is_not_taken_again(self, store: Store, clock: Clock) -> None:
        fail_run(store)
        [alert] = take(store)

        delivered(store, alert)
        clock.forward(2 * MINUTE)

        assert take(store) == []
        assert [one.delivered for one in listed(store)] == [AlertStatus.FIRING]

    def test_a_failed_delivery_is_due_again_after_its_pause(
        self, store: Store, clock: Clock
    ) -> None:
        fail_run(store)
        [alert] = take(store)

        failed(store, alert, HOUR)
        clock.forward(HOUR - MINUTE)
        early = take(store)
        clock.forward(MINUTE)
        [again] = take(store)

        assert early == []
        assert (again.tries, again.error) == (2, "refused")

    def test_an_alert_that_was_given_up_is_not_taken_again(
        self, store: Store, clock: Clock
    ) -> None:
        fail_run(store)
        [alert] = take(store)

        failed(store, alert, None)
        clock.forward(timedelta(days=1))

        assert take(store) == []
        assert [(one.delivered, one.error) for one in listed(store)] == [(None, "refused")]

    def test_a_late_failure_does_not_undo_a_delivery(self, store: Store, clock: Clock) -> None:
        fail_run(store)
        [alert] = take(store)
        clock.forward(MINUTE)
        [again] = take(store)
        delivered(store, again)

        failed(store, alert, NOW)

        assert take(store) == []

    def test_a_file_that_is_broken_for_a_minute_raises_one_alert(
        self, store: Store, clock: Clock
    ) -> None:
        store.execute(c.SaveFileError("etl.py", TRACEBACK))
        check(store)
        early = take(store)
        clock.forward(MINUTE)
        check(store)
        [alert] = take(store)
        delivered(store, alert)
        clock.forward(MINUTE)
        check(store)

        assert early == []
        assert (alert.kind, alert.status) == (AlertKind.IMPORT_ERROR, AlertStatus.FIRING)
        assert facts(alert) == {"file": "etl.py", "error": TRACEBACK}
        assert take(store) == []

    def test_a_file_that_is_mended_within_a_minute_raises_no_alert(
        self, store: Store, clock: Clock
    ) -> None:
        store.execute(c.SaveFileError("etl.py", TRACEBACK))
        check(store)
        store.execute(c.SaveFile("etl.py", (), seen=True))
        check(store)
        clock.forward(MINUTE)

        assert (take(store), listed(store)) == ([], [])

    def test_an_alert_is_resolved_when_its_file_is_mended_and_raised_again_when_it_breaks(
        self, store: Store, clock: Clock
    ) -> None:
        statuses = []
        for save in (c.SaveFileError("etl.py", TRACEBACK), c.SaveFile("etl.py", (), seen=True)) * 2:
            store.execute(save)
            check(store)
            clock.forward(MINUTE)
            [alert] = take(store)
            delivered(store, alert)
            statuses.append(alert.status)

        assert statuses == [AlertStatus.FIRING, AlertStatus.RESOLVED] * 2
        assert len(listed(store)) == 2

    def test_what_is_resolved_during_its_delivery_is_delivered_again(
        self, store: Store, clock: Clock
    ) -> None:
        store.execute(c.SaveFileError("etl.py", TRACEBACK))
        check(store)
        clock.forward(MINUTE)
        [firing] = take(store)
        store.execute(c.SaveFile("etl.py", (), seen=True))
        check(store)

        delivered(store, firing)
        [resolved] = take(store)

        assert (firing.status, resolved.status) == (AlertStatus.FIRING, AlertStatus.RESOLVED)

    def test_an_alert_whose_delivery_failed_is_delivered_once_it_is_resolved(
        self, store: Store, clock: Clock
    ) -> None:
        store.execute(c.SaveFileError("etl.py", TRACEBACK))
        check(store)
        clock.forward(MINUTE)
        [alert] = take(store)
        failed(store, alert, HOUR)
        store.execute(c.SaveFile("etl.py", (), seen=True))
        check(store)
        clock.forward(HOUR)

        assert [one.status for one in take(store)] == [AlertStatus.RESOLVED]

    def test_an_asset_without_an_event_for_too_long_is_late_until_it_has_one(
        self, store: Store, clock: Clock
    ) -> None:
        store.execute(c.SaveFile("sales.py", (LOADS_ORDERS,)))
        emit(store, ORDERS_CHANGED)
        at = store.execute(c.Now())
        clock.forward(HOUR)
        check(store, orders=HOUR)
        in_time = take(store)
        clock.forward(MINUTE)
        check(store, orders=HOUR)
        [late] = take(store)
        delivered(store, late)
        check(store, orders=HOUR)
        emit(store, ORDERS_CHANGED)
        check(store, orders=HOUR)
        [resolved] = take(store)

        assert in_time == []
        assert late.kind is AlertKind.ASSET_LATE
        assert facts(late) == {
            "asset": "orders",
            "last_event_at": at.isoformat().replace("+00:00", "Z"),
            "late_after_seconds": HOUR.total_seconds(),
        }
        assert resolved.status is AlertStatus.RESOLVED

    def test_an_asset_without_any_event_is_late_some_time_after_it_was_declared(
        self, store: Store, clock: Clock
    ) -> None:
        store.execute(c.SaveFile("sales.py", (msgspec.structs.replace(LOADS_ORDERS, tasks=()),)))
        clock.forward(2 * HOUR)
        store.execute(c.SaveFile("sales.py", (LOADS_ORDERS,)))
        clock.forward(HOUR)
        check(store, orders=HOUR)
        in_time = take(store)
        clock.forward(MINUTE)
        check(store, orders=HOUR)

        [late] = take(store)

        assert (in_time, facts(late)["last_event_at"]) == ([], None)

    def test_names_that_no_asset_has_are_returned(self, store: Store, clock: Clock) -> None:
        declare_late(store, clock)
        store.execute(c.EmitAssetEvent(scope=ORDERS, writer=ANN))

        assert check(store, orders=HOUR, orderz=HOUR) == ("orderz",)

    def test_a_check_is_done_by_one_within_the_interval(self, store: Store, clock: Clock) -> None:
        command = c.CheckConditions(channel=Channel.WEBHOOK, late_after={}, interval=MINUTE)

        first, meanwhile = store.execute(command), store.execute(command)
        clock.forward(MINUTE)
        later = store.execute(command)

        assert (first, meanwhile, later) == ((), None, ())

    def test_concurrent_checks_raise_an_alert_once(self, store: Store, clock: Clock) -> None:
        declare_late(store, clock)

        at_once([partial(check, store, orders=HOUR)] * 6)

        assert len(listed(store)) == 1

    def test_what_another_scheduler_calls_late_is_late_until_it_has_an_event(
        self, store: Store, clock: Clock
    ) -> None:
        declare_late(store, clock)
        check(store, orders=HOUR)
        check(store)
        [late] = take(store)
        delivered(store, late)
        check(store)
        before = take(store)
        clock.forward(MINUTE)
        store.execute(c.EmitAssetEvent(scope=ORDERS, writer=ANN))
        check(store)

        assert (late.status, before) == (AlertStatus.FIRING, [])
        assert [one.status for one in take(store)] == [AlertStatus.RESOLVED]

    def test_a_condition_that_lasted_for_long_is_resolved(self, store: Store, clock: Clock) -> None:
        store.execute(c.SaveFileError("etl.py", TRACEBACK))
        check(store)
        clock.forward(MINUTE)
        [alert] = take(store)
        delivered(store, alert)
        clock.forward(timedelta(days=31))
        store.execute(c.SaveFile("etl.py", (), seen=True))
        check(store)

        assert [one.status for one in take(store)] == [AlertStatus.RESOLVED]

    def test_channels_are_checked_independently(self, store: Store, clock: Clock) -> None:
        declare_late(store, clock)
        for channel in Channel:
            late = {"orders": HOUR}
            store.execute(c.CheckConditions(channel=channel, late_after=late, interval=MINUTE))

        assert sorted(one.channel for one in listed(store)) == sorted(Channel)

    def test_alerts_are_deleted_after_30_days_unless_their_condition_lasts(
        self, store: Store, clock: Clock
    ) -> None:
        fail_run(store)
        declare_late(store, clock)
        check(store, orders=HOUR)
        clock.forward(timedelta(days=31))
        check(store, orders=HOUR)

        assert [one.kind for one in listed(store)] == [AlertKind.ASSET_LATE]

    def test_an_alert_never_has_the_id_of_an_older_one(self, store: Store, clock: Clock) -> None:
        fail_run(store)
        [first] = take(store)
        delivered(store, first)
        clock.forward(timedelta(days=31))
        check(store)
        forgotten = listed(store)
        declare_late(store, clock)
        check(store, orders=HOUR)

        assert forgotten == []
        assert [one.id > first.id for one in listed(store)] == [True]

    def test_the_newest_of_the_untried_alerts_is_taken_first(
        self, store: Store, clock: Clock
    ) -> None:
        declare_late(store, clock, *"ab")
        check(store, a=HOUR)
        clock.forward(MINUTE)
        check(store, a=HOUR, b=HOUR)

        assert [facts(one)["asset"] for one in take(store)] == ["b", "a"]

    def test_alerts_are_listed_newest_first_in_pages_and_counted(
        self, store: Store, clock: Clock
    ) -> None:
        declare_late(store, clock, *"abc")
        check(store, a=HOUR, b=HOUR, c=HOUR)

        pages = [store.execute(c.ListAlerts(limit=2, offset=offset)) for offset in (0, 2)]

        assert len(store.execute(c.ListAlerts(10, max_size=0))) == 1
        names = [facts(one)["asset"] for page in pages for one in page]
        assert (names, store.execute(c.Count(c.ListAlerts(limit=1)))) == (["c", "b", "a"], 3)
        assert store.execute(c.GetActivity()).undelivered_alerts == 3
