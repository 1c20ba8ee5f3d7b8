"""Listing and deletion of expired task entries."""

from __future__ import annotations

from datetime import timedelta

import pytest

from holdfast import commands as c
from holdfast.commands import CountExpired, DeleteExpired, Get, List, ListExpired, Set, TakeExpired
from holdfast.model.entry import Expired
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.testing.client import Client
from holdfast.testing.clock import Clock
from holdfast.testing.conformance.fixtures import ANN, StoreFixtures

HOUR = timedelta(hours=1)


def keys(rows: tuple[Expired, ...]) -> list[str]:
    return [row.key for row in rows]


class Cleanup(StoreFixtures):
    def test_nothing_is_removed_if_nothing_has_expired(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        do(Set(task, "k", "1", ANN, clock() + HOUR))

        assert do(CountExpired(clock())) == 0
        assert do(ListExpired(clock(), 10)) == ()
        assert do(DeleteExpired(clock())) == 0
        assert do(DeleteExpired(clock(), 10)) == 0
        assert do(TakeExpired(clock(), 10)) == ()

    def test_expired_rows_are_counted_and_listed_in_order_of_expiry(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        self._expire(do, task, clock, ["a", "b", "c"])

        rows = do(ListExpired(clock(), 10))

        assert do(CountExpired(clock())) == 3
        assert keys(rows) == ["c", "b", "a"]

    def test_a_listed_row_has_its_scope_and_its_expiry(self, do: Client, clock: Clock) -> None:
        mapped = TaskScope("sales", "monday", "load", 3)
        do(c.RegisterTask(mapped))
        expiry = clock() + HOUR
        do(Set(mapped, "job_id", "1", ANN, expiry))
        clock.forward(HOUR)

        (row,) = do(ListExpired(clock(), 10))

        assert (row.scope, row.key, row.expires_at) == (mapped, "job_id", expiry)

    def test_a_listing_continues_after_a_given_row(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        self._expire(do, task, clock, ["a", "b", "c"])

        first = do(ListExpired(clock(), 2))
        second = do(ListExpired(clock(), 2, after=first[-1]))
        third = do(ListExpired(clock(), 2, after=second[-1]))

        assert [keys(first), keys(second), keys(third)] == [["c", "b"], ["a"], []]

    def test_a_listing_has_each_of_the_rows_with_the_same_expiry_once(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        do(c.SetMany(task, tuple((key, "1") for key in "abcde"), ANN, clock() + HOUR))
        clock.forward(HOUR)

        first = do(ListExpired(clock(), 2))
        second = do(ListExpired(clock(), 2, after=first[-1]))
        third = do(ListExpired(clock(), 2, after=second[-1]))

        assert sorted(keys(first + second + third)) == ["a", "b", "c", "d", "e"]

    def test_a_listing_continues_while_earlier_rows_are_removed(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        self._expire(do, task, clock, ["a", "b", "c", "d"])
        first = do(ListExpired(clock(), 2))
        do(DeleteExpired(clock(), 2))

        assert keys(do(ListExpired(clock(), 2, after=first[-1]))) == ["b", "a"]

    def test_delete_removes_exactly_the_expired_entries(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        do(Set(task, "never", "1", ANN))
        do(Set(task, "later", "1", ANN, clock() + timedelta(days=30)))
        self._expire(do, task, clock, ["a", "b", "c"])

        assert do(DeleteExpired(clock())) == 3

        assert do(CountExpired(clock())) == 0
        assert [each.entry.key for each in do(List(task)).found] == ["later", "never"]

    @pytest.mark.parametrize("skip_held", [False, True])
    def test_batches_remove_all_expired_entries(
        self, do: Client, task: TaskScope, clock: Clock, skip_held: bool
    ) -> None:
        self._expire(do, task, clock, ["a", "b", "c", "d", "e"])

        gone = [do(DeleteExpired(clock(), 2, skip_held)) for _ in range(4)]

        assert gone == [2, 2, 1, 0]
        assert do(CountExpired(clock())) == 0

    def test_take_returns_the_removed_rows(self, do: Client, task: TaskScope, clock: Clock) -> None:
        self._expire(do, task, clock, ["a", "b", "c"])

        first = do(TakeExpired(clock(), 2))
        second = do(TakeExpired(clock(), 2))

        assert sorted(keys(first + second)) == ["a", "b", "c"]
        assert {row.scope for row in first} == {task}
        assert do(TakeExpired(clock(), 2)) == ()
        assert do(CountExpired(clock())) == 0

    def test_the_preview_is_what_is_removed(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        self._expire(do, task, clock, ["a", "b", "c"])
        cutoff = clock() - 5 * HOUR

        preview = do(ListExpired(cutoff, 10))

        assert do(CountExpired(cutoff)) == len(preview)
        assert sorted(keys(do(TakeExpired(cutoff, 10)))) == sorted(keys(preview))

    def test_an_entry_that_expires_at_the_cut_off_is_removed_and_a_later_one_is_not(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        cutoff = clock() + HOUR
        do(Set(task, "at", "1", ANN, cutoff))
        do(Set(task, "after", "1", ANN, cutoff + timedelta(microseconds=1)))
        clock.forward(5 * HOUR)

        assert do(CountExpired(cutoff)) == 1
        assert keys(do(ListExpired(cutoff, 10))) == ["at"]
        assert do(DeleteExpired(cutoff)) == 1
        assert keys(do(ListExpired(clock(), 10))) == ["after"]

    def test_a_row_that_was_rewritten_is_not_removed(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        self._expire(do, task, clock, ["a", "b"])
        cutoff = clock()
        do(Set(task, "a", '"again"', ANN, clock() + HOUR))
        do(Set(task, "b", '"again"', ANN))

        assert do(DeleteExpired(cutoff)) == 0
        assert do(Get(task, "a")) == '"again"'
        assert do(Get(task, "b")) == '"again"'

    def test_rows_of_every_task_instance_are_removed(self, do: Client, clock: Clock) -> None:
        scopes = [TaskScope("sales", "monday", "load", index) for index in range(3)]
        for scope in scopes:
            do(c.RegisterTask(scope))
            do(Set(scope, "k", "1", ANN, clock() + HOUR))
        clock.forward(HOUR)

        assert {row.scope for row in do(ListExpired(clock(), 10))} == set(scopes)
        assert do(DeleteExpired(clock())) == 3

    def test_asset_entries_are_never_touched(
        self, do: Client, asset: AssetScope, clock: Clock
    ) -> None:
        do(Set(asset, "watermark", "1", ANN))
        clock.forward(timedelta(days=1000))

        assert do(CountExpired(clock())) == 0
        assert do(DeleteExpired(clock())) == 0
        assert do(Get(asset, "watermark")) == "1"

    def test_concurrent_cleanups_remove_each_row_once(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        values = tuple((f"k{n}", "1") for n in range(60))
        do(c.SetMany(task, values, ANN, clock() + HOUR))
        clock.forward(HOUR)

        gone = do.together([DeleteExpired(clock(), 20, skip_held=True)] * 6)

        assert sum(gone) + do(CountExpired(clock())) == 60

    def _expire(self, do: Client, task: TaskScope, clock: Clock, names: list[str]) -> None:
        """Write entries that expire, the first of these names last."""
        for number, name in enumerate(reversed(names), start=1):
            do(Set(task, name, "1", ANN, clock() + number * HOUR))
        clock.forward((len(names) + 1) * HOUR)
