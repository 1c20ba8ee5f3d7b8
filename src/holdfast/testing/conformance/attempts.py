"""Attempts and fencing: only the newest attempt of a task instance may write, until it ends."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import commands as c
from holdfast.commands import (
    Advance,
    Clear,
    Delete,
    FinishAttempt,
    Get,
    GetEntry,
    List,
    Rewind,
    Set,
    SetMany,
    StartAttempt,
)
from holdfast.errors import StaleAttempt, UnknownTaskInstance
from holdfast.model.entry import TaskWriter
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.testing.client import Client
from holdfast.testing.conformance.fixtures import ANN, ORDERS, TASK, StoreFixtures, supported

FIRST = TaskWriter(TASK, 1)

WRITES_OF_THE_FIRST: list[c.Command[Any]] = [
    Set(TASK, "k", '"zombie"', FIRST),
    Set(TASK, "new", '"zombie"', FIRST),
    SetMany(TASK, (("k", '"zombie"'), ("new", '"zombie"')), FIRST),
    Delete(TASK, "k", FIRST),
    Clear(TASK, FIRST),
    Clear(TASK, FIRST, all_map_indices=True),
    Set(ORDERS, "k", '"zombie"', FIRST),
    Set(ORDERS, "new", '"zombie"', FIRST),
    Set(ORDERS, "k", '"zombie"', FIRST, on_success=True),
    SetMany(ORDERS, (("k", '"zombie"'), ("new", '"zombie"')), FIRST),
    Delete(ORDERS, "k", FIRST),
    Clear(ORDERS, FIRST),
    Advance(ORDERS, "k", '"zombie"', FIRST),
    Advance(ORDERS, "new", '"zombie"', FIRST),
    Advance(ORDERS, "k", '"zombie"', FIRST, on_success=True),
    Rewind(ORDERS, "k", c.ToVersion(1), FIRST),
    FinishAttempt(FIRST, succeeded=True),
    FinishAttempt(FIRST, succeeded=True, clear=True),
    FinishAttempt(FIRST, succeeded=False),
]


class Attempts(StoreFixtures):
    def test_attempts_are_numbered_from_one(self, do: Client, task: TaskScope) -> None:
        assert [do(StartAttempt(task)) for _ in range(3)] == [1, 2, 3]

    def test_an_attempt_does_not_start_if_an_unknown_one_was_started_before(
        self, do: Client, task: TaskScope
    ) -> None:
        assert do(StartAttempt(task, after=0)) == 1
        with pytest.raises(StaleAttempt, match="attempt 1"):
            do(StartAttempt(task, after=0))

        assert do(StartAttempt(task, after=1)) == 2

    def test_an_attempt_starts_after_the_newest_one(self, do: Client, task: TaskScope) -> None:
        assert do(StartAttempt(task, after=0)) == 1
        assert do(StartAttempt(task, after=1)) == 2

        with pytest.raises(StaleAttempt):
            do(StartAttempt(task, after=1))
        do(Set(task, "k", "1", TaskWriter(task, 2)))

        assert do(Get(task, "k")) == "1"

    def test_map_indices_have_attempts_of_their_own(self, do: Client, task: TaskScope) -> None:
        other = TaskScope(task.dag_id, task.run_id, task.task_id, 0)
        do(c.RegisterTask(other))
        do(StartAttempt(task))

        assert do(StartAttempt(other)) == 1

    def test_a_live_attempt_may_write_and_delete_in_both_stores(
        self, do: Client, scope: StoreScope, attempt: TaskWriter
    ) -> None:
        do(Set(scope, "a", "1", attempt))
        do(Set(scope, "b", "1", attempt))
        do(Delete(scope, "a", attempt))

        assert do(Get(scope, "a")) is None
        assert do(Get(scope, "b")) == "1"

    def test_an_entry_names_the_task_of_the_attempt_that_wrote_it(
        self, do: Client, scope: StoreScope, attempt: TaskWriter
    ) -> None:
        do(Set(scope, "k", "1", attempt))

        entry = do(GetEntry(scope, "k"))

        assert entry is not None
        assert isinstance(entry.writer, TaskWriter)
        assert entry.writer.scope == attempt.scope

    def test_a_superseded_attempt_may_not_write(
        self, do: Client, task: TaskScope, asset: AssetScope
    ) -> None:
        self._first_attempt_writes(do, task, asset)

        do(StartAttempt(task))

        self._assert_the_first_attempt_is_refused(do, task, asset)

    @pytest.mark.parametrize("succeeded", [True, False], ids=["success", "failure"])
    def test_an_ended_attempt_may_not_write(
        self, do: Client, task: TaskScope, asset: AssetScope, succeeded: bool
    ) -> None:
        self._first_attempt_writes(do, task, asset)

        do(FinishAttempt(FIRST, succeeded))

        self._assert_the_first_attempt_is_refused(do, task, asset)

    def test_the_error_for_an_ended_attempt_precedes_that_for_an_unknown_asset(
        self, do: Client, task: TaskScope
    ) -> None:
        old = TaskWriter(task, do(StartAttempt(task)))
        do(StartAttempt(task))
        unknown = AssetScope(uri="s3://lake/nothing")

        for on_success in (False, True):
            with pytest.raises(StaleAttempt):
                do(Set(unknown, "k", "1", old, on_success=on_success))

    def test_an_attempt_that_was_never_started_may_not_write(
        self, do: Client, task: TaskScope
    ) -> None:
        for number in (1, 2, 7):
            with pytest.raises(StaleAttempt):
                do(Set(task, "k", "1", TaskWriter(task, number)))

        assert do(Get(task, "k")) is None

    def test_a_superseded_attempt_may_not_compare_and_set(
        self, do: Client, scope: StoreScope, attempt: TaskWriter
    ) -> None:
        do(StartAttempt(attempt.scope))

        with pytest.raises(StaleAttempt):
            do(Set(scope, "k", "1", attempt, if_version=0))

        assert do(Get(scope, "k")) is None

    def test_a_refused_write_of_an_attempt_changes_nothing(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(StartAttempt(attempt.scope))

        with pytest.raises(StaleAttempt):
            do(Set(asset, "k", "1", attempt))

        assert do(c.History(asset, "k")) == ()
        assert do(List(asset)).total == 0

    def test_a_future_attempt_may_not_write(self, do: Client, attempt: TaskWriter) -> None:
        assert attempt.attempt is not None

        with pytest.raises(StaleAttempt):
            do(Set(attempt.scope, "k", "1", TaskWriter(attempt.scope, attempt.attempt + 1)))

    def test_a_superseded_attempt_may_still_read(
        self, do: Client, scope: StoreScope, attempt: TaskWriter
    ) -> None:
        do(Set(scope, "k", "1", attempt))
        do(StartAttempt(attempt.scope))

        assert do(Get(scope, "k", attempt)) == "1"

    def test_a_new_attempt_does_not_fence_other_writers(
        self, do: Client, scope: StoreScope, attempt: TaskWriter
    ) -> None:
        do(StartAttempt(attempt.scope))

        do(Set(scope, "k", "1", ANN))
        do(Set(scope, "k", "2", TaskWriter(attempt.scope)))

        assert do(Get(scope, "k")) == "2"

    def test_a_retry_reads_the_entries_of_the_previous_attempt(
        self, do: Client, scope: StoreScope, attempt: TaskWriter
    ) -> None:
        do(Set(scope, "job_id", '"app_1"', attempt))
        do(FinishAttempt(attempt, succeeded=False))

        retry = TaskWriter(attempt.scope, do(StartAttempt(attempt.scope)))

        assert do(Get(scope, "job_id", retry)) == '"app_1"'
        do(Set(scope, "job_id", '"app_2"', retry))
        assert do(Get(scope, "job_id")) == '"app_2"'

    def test_an_attempt_of_a_deleted_run_may_not_write(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(c.DeleteRun(attempt.scope.dag_id, attempt.scope.run_id))

        with pytest.raises(UnknownTaskInstance):
            do(Set(attempt.scope, "k", "1", attempt))
        with pytest.raises(UnknownTaskInstance):
            do(Set(asset, "k", "1", attempt))
        assert do(Get(asset, "k")) is None

    def test_an_attempt_of_a_deleted_run_may_not_write_to_the_recreated_run(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(c.DeleteRun(attempt.scope.dag_id, attempt.scope.run_id))
        do(c.RegisterTask(attempt.scope))
        again = do(StartAttempt(attempt.scope))

        assert attempt.attempt is not None
        assert again > attempt.attempt
        with pytest.raises(StaleAttempt):
            do(Set(attempt.scope, "k", "1", attempt))
        with pytest.raises(StaleAttempt):
            do(Set(asset, "k", "1", attempt))

    def test_deleting_a_run_leaves_the_attempt_numbers_of_other_runs(
        self, do: Client, attempt: TaskWriter
    ) -> None:
        other = TaskScope(attempt.scope.dag_id, "tuesday", attempt.scope.task_id)
        do(c.DeleteRun(attempt.scope.dag_id, attempt.scope.run_id))
        do(c.RegisterTask(other))

        assert do(StartAttempt(other)) == 1

    def test_success_keeps_the_task_store(self, do: Client, attempt: TaskWriter) -> None:
        do(Set(attempt.scope, "k", "1", attempt))

        do(FinishAttempt(attempt, succeeded=True))

        assert do(Get(attempt.scope, "k")) == "1"

    def test_success_can_clear_the_task_store_and_leaves_the_asset_store(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Set(attempt.scope, "k", "1", attempt))
        do(Set(asset, "k", "1", attempt))

        do(FinishAttempt(attempt, succeeded=True, clear=True))

        assert do(Get(attempt.scope, "k")) is None
        assert do(Get(asset, "k")) == "1"

    def test_success_clears_this_map_index_only(self, do: Client, attempt: TaskWriter) -> None:
        other = TaskScope(attempt.scope.dag_id, attempt.scope.run_id, attempt.scope.task_id, 0)
        do(c.RegisterTask(other))
        do(Set(other, "k", "1", ANN))

        do(FinishAttempt(attempt, succeeded=True, clear=True))

        assert do(Get(other, "k")) == "1"

    def test_failure_never_clears_the_task_store(self, do: Client, attempt: TaskWriter) -> None:
        do(Set(attempt.scope, "k", "1", attempt))

        do(FinishAttempt(attempt, succeeded=False, clear=True))

        assert do(Get(attempt.scope, "k")) == "1"

    def test_only_one_of_several_concurrent_attempts_may_write(
        self, do: Client, task: TaskScope
    ) -> None:
        numbers = do.together([StartAttempt(task)] * 6)

        outcomes = do.together([Set(task, "k", str(n), TaskWriter(task, n)) for n in numbers])

        assert sorted(numbers) == [1, 2, 3, 4, 5, 6]
        assert sum(isinstance(each, StaleAttempt) for each in outcomes) == 5
        assert do(Get(task, "k")) == "6"

    def _first_attempt_writes(self, do: Client, task: TaskScope, asset: AssetScope) -> None:
        do(StartAttempt(task))
        do(Set(task, "k", '"first"', FIRST))
        do(Set(asset, "k", '"first"', FIRST))

    def _assert_the_first_attempt_is_refused(
        self, do: Client, task: TaskScope, asset: AssetScope
    ) -> None:
        for command in supported(do, WRITES_OF_THE_FIRST):
            with pytest.raises(StaleAttempt, match="sales/monday/load"):
                do(command)
        for scope in (task, asset):
            assert do(Get(scope, "k")) == '"first"'
            assert do(Get(scope, "new")) is None
