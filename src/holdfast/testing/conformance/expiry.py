"""Expiry of entries: effective for every reader at once, and set by every write."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest

from holdfast.accessor.binding import Rules
from holdfast.commands import (
    Clear,
    CountExpired,
    Get,
    GetEntry,
    List,
    Now,
    Set,
    SetMany,
    TaskFilter,
)
from holdfast.model.scope import TaskScope
from holdfast.portable.retention import NEVER_EXPIRE
from holdfast.testing.client import Client
from holdfast.testing.clock import Clock
from holdfast.testing.conformance.fixtures import ANN, StoreFixtures

HOUR = timedelta(hours=1)
AGES = timedelta(days=365 * 100)

NEVER_BY_DEFAULT = Rules(default_retention=timedelta(0))


class Expiry(StoreFixtures):
    def test_now_is_the_clock_of_the_store(self, do: Client, clock: Clock) -> None:
        assert do(Now()) == clock()

    def test_now_is_in_utc(self, do: Client) -> None:
        assert do(Now()).utcoffset() == timedelta(0)

    def test_an_entry_is_present_until_it_expires(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        expiry = clock() + HOUR
        do(Set(task, "k", "1", ANN, expiry))
        clock.forward(HOUR - timedelta(microseconds=1))

        entry = do(GetEntry(task, "k"))

        assert entry is not None
        assert entry.expires_at == expiry
        assert do(List(task)).total == 1

    def test_a_value_is_returned_until_it_expires(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        do(Set(task, "k", "1", ANN, clock() + HOUR))
        clock.forward(HOUR - timedelta(microseconds=1))
        before = do(Get(task, "k"))
        clock.forward(timedelta(microseconds=1))

        assert before == "1"
        assert do(Get(task, "k")) is None

    def test_an_expired_entry_is_absent_collected_or_not(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        do(Set(task, "k", "1", ANN, clock() + HOUR))
        clock.forward(HOUR)

        assert do(GetEntry(task, "k")) is None
        assert do(List(task)).total == 0
        assert do(List(TaskFilter())).total == 0

    def test_an_entry_written_with_a_past_expiry_is_absent(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        do(Set(task, "k", "1", ANN, clock() - HOUR))

        assert do(Get(task, "k")) is None

    def test_only_the_expired_entry_is_absent(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        do(Set(task, "short", "1", ANN, clock() + HOUR))
        do(Set(task, "long", "1", ANN, clock() + 3 * HOUR))
        do(Set(task, "never", "1", ANN))
        clock.forward(2 * HOUR)

        assert [each.entry.key for each in do(List(task)).found] == ["long", "never"]

    def test_all_entries_of_a_set_many_expire_together(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        do(SetMany(task, (("a", "1"), ("b", "1")), ANN, clock() + HOUR))
        clock.forward(HOUR)

        assert do(List(task)).total == 0

    def test_a_later_set_can_prolong_an_entry(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        do(Set(task, "k", "1", ANN, clock() + HOUR))
        do(Set(task, "k", "1", ANN, clock() + 3 * HOUR))
        clock.forward(2 * HOUR)

        assert do(Get(task, "k")) == "1"

    def test_a_later_set_can_shorten_an_entry(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        do(Set(task, "k", "1", ANN))
        do(Set(task, "k", "1", ANN, clock() + HOUR))
        clock.forward(2 * HOUR)

        assert do(Get(task, "k")) is None

    def test_a_later_set_without_expiry_keeps_an_entry(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        do(Set(task, "k", "1", ANN, clock() + HOUR))
        do(Set(task, "k", "1", ANN))
        clock.forward(2 * HOUR)

        assert do(Get(task, "k")) == "1"

    def test_an_expired_key_can_be_set_again(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        do(Set(task, "k", "1", ANN, clock() + HOUR))
        clock.forward(2 * HOUR)

        do(Set(task, "k", "2", ANN, clock() + HOUR))

        assert do(Get(task, "k")) == "2"

    def test_clear_removes_expired_entries_too(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        do(Set(task, "k", "1", ANN, clock() + HOUR))
        clock.forward(2 * HOUR)

        do(Clear(task, ANN))

        assert do(List(task)).total == 0
        assert do(CountExpired(clock())) == 0

    def test_an_expiry_in_another_time_zone_is_the_same_time(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        kolkata = timezone(timedelta(hours=5, minutes=30))
        do(Set(task, "k", "1", ANN, (clock() + HOUR).astimezone(kolkata)))

        entry = do(GetEntry(task, "k"))

        assert entry is not None
        assert entry.expires_at == clock() + HOUR
        assert entry.expires_at.utcoffset() == timedelta(0)

    def test_retention_counts_from_the_write(self, task_store: Any) -> None:
        before = datetime.now(UTC)
        task_store.set("k", 1, retention=timedelta(days=7))
        after = datetime.now(UTC)

        expiry = task_store.entry("k").expires_at

        assert before + timedelta(days=7) <= expiry <= after + timedelta(days=7)

    def test_retention_ends(self, task_store: Any, clock: Clock) -> None:
        task_store.set("k", 1, retention=timedelta(days=7))
        clock.forward(timedelta(days=7, minutes=1))

        assert task_store.get("k") is None
        assert task_store.get("k", "absent") == "absent"

    def test_the_retention_of_a_set_many_applies_to_all_its_entries(
        self, task_store: Any, clock: Clock
    ) -> None:
        task_store.set_many({"a": 1, "b": 1}, retention=timedelta(days=7))
        clock.forward(timedelta(days=7, minutes=1))

        assert task_store.entry("a") is None
        assert task_store.keys() == []

    def test_without_retention_the_default_applies(
        self, open_task_store: Callable[..., Any], clock: Clock
    ) -> None:
        task_store = open_task_store(rules=Rules(default_retention=timedelta(days=3)))
        task_store.set("k", 1)
        clock.forward(timedelta(days=2, hours=23))
        before = task_store.get("k")
        clock.forward(timedelta(hours=2))

        assert before == 1
        assert task_store.get("k") is None

    def test_never_expire_outlives_any_default(self, task_store: Any, clock: Clock) -> None:
        task_store.set("k", 1, retention=NEVER_EXPIRE)
        task_store.set("a", 1, retention=timedelta.max)
        clock.forward(AGES)

        assert task_store.get("k") == 1
        assert task_store.get("a") == 1

    def test_an_entry_that_never_expires_has_no_expiry(self, task_store: Any) -> None:
        task_store.set_many({"a": 1}, retention=NEVER_EXPIRE)

        assert task_store.entry("a").expires_at is None

    def test_with_a_default_of_zero_entries_never_expire(
        self, open_task_store: Callable[..., Any], clock: Clock
    ) -> None:
        task_store = open_task_store(rules=NEVER_BY_DEFAULT)
        task_store.set("k", 1)
        clock.forward(AGES)

        assert task_store.get("k") == 1

    def test_without_retention_a_never_expiring_entry_gets_the_default_again(
        self, task_store: Any, clock: Clock
    ) -> None:
        task_store.set("k", 1, retention=NEVER_EXPIRE)
        task_store.set("k", 2)
        clock.forward(timedelta(days=31))

        assert task_store.get("k") is None

    def test_a_changed_default_does_not_apply_to_written_entries(
        self, open_task_store: Callable[..., Any]
    ) -> None:
        open_task_store().set("k", 1)
        written = open_task_store().entry("k").expires_at

        later = open_task_store(rules=NEVER_BY_DEFAULT)
        later.set("other", 1)

        assert later.entry("k").expires_at == written

    @pytest.mark.parametrize("days", [1, 36500, 365 * 5000])
    def test_an_expiry_is_exact_to_the_microsecond(
        self, do: Client, task: TaskScope, days: int
    ) -> None:
        expiry = datetime(2026, 12, 31, 23, 59, 59, 999999, UTC) + timedelta(days=days)
        do(Set(task, "k", "1", ANN, expiry))

        entry = do(GetEntry(task, "k"))

        assert entry is not None
        assert entry.expires_at == expiry

    def test_asset_entries_do_not_expire(self, asset_store: Any, clock: Clock) -> None:
        asset_store.set("watermark", 1)
        clock.forward(AGES)

        assert asset_store.get("watermark") == 1
