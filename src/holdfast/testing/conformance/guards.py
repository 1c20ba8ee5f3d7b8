"""Commands that are executed only while an attempt is live, or a job's intent current."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast import commands as c
from holdfast.commands import (
    Clear,
    CurrentIntent,
    Delete,
    FinishAttempt,
    Get,
    GetEntry,
    Guarded,
    History,
    List,
    LiveAttempt,
    Once,
    RequestId,
    Set,
    SetMany,
    StartAttempt,
)
from holdfast.errors import StaleAttempt, UnknownTaskInstance
from holdfast.model.entry import TaskWriter
from holdfast.model.run import Ending, Outcome, TaskState
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.value import encode
from holdfast.testing.client import Client
from holdfast.testing.clock import Clock
from holdfast.testing.conformance.fixtures import ANN, ORDERS, TASK, StoreFixtures, supported

FIRST = TaskWriter(TASK, 1)
JOB = TaskWriter(TASK)
INTENT = "job.intent"
READS: list[c.Command[Any]] = [
    Get(TASK, "k"),
    Get(TASK, "k", reader=FIRST),
    Get(TASK, "absent"),
    Get(ORDERS, "k", reader=FIRST),
    GetEntry(TASK, "k"),
    GetEntry(ORDERS, "k", reader=FIRST),
    List(TASK),
    List(ORDERS, reader=FIRST),
    History(ORDERS, "k"),
    c.Now(),
]


def while_current(inner: c.Command[Any], intent: str = "app-1") -> Guarded:
    return Guarded(CurrentIntent(TASK, INTENT, intent), inner)


def current(do: Client, intent: str) -> int:
    """Make the job of this intent the current one; return the version of that write."""
    return do(Set(TASK, INTENT, encode(intent), JOB))


class Guards(StoreFixtures):
    def test_a_live_attempt_reads_committed_entries(
        self, do: Client, attempt: TaskWriter, scope: StoreScope
    ) -> None:
        do(Set(scope, "k", '"v"', attempt))

        assert do(Guarded(LiveAttempt(attempt), Get(scope, "k"))) == '"v"'
        assert do(Guarded(LiveAttempt(attempt), Get(scope, "absent"))) is None
        entry = Guarded(LiveAttempt(attempt), GetEntry(scope, "k", reader=attempt))
        assert do(entry) == do(GetEntry(scope, "k"))

    def test_a_live_attempt_reads_its_staged_writes(
        self, do: Client, attempt: TaskWriter, asset: AssetScope
    ) -> None:
        do(Set(asset, "k", '"staged"', attempt, on_success=True))

        read = Get(asset, "k", reader=attempt)

        assert do(Guarded(LiveAttempt(attempt), read)) == '"staged"'

    def test_a_live_attempt_does_not_read_expired_entries(
        self, do: Client, attempt: TaskWriter, clock: Clock
    ) -> None:
        do(Set(TASK, "k", "1", attempt, clock() + timedelta(hours=1)))
        clock.forward(timedelta(hours=1))

        assert do(Guarded(LiveAttempt(attempt), Get(TASK, "k"))) is None

    def test_a_superseded_attempt_does_not_read(
        self, do: Client, task: TaskScope, asset: AssetScope
    ) -> None:
        do(StartAttempt(task))
        do(StartAttempt(task))

        self._assert_the_first_attempt_reads_nothing(do)

    @pytest.mark.parametrize("succeeded", [True, False], ids=["success", "failure"])
    def test_an_ended_attempt_does_not_read(
        self, do: Client, task: TaskScope, asset: AssetScope, succeeded: bool
    ) -> None:
        do(StartAttempt(task))
        do(FinishAttempt(FIRST, succeeded))

        self._assert_the_first_attempt_reads_nothing(do)

    def test_an_attempt_of_an_unknown_task_gets_an_error(
        self, do: Client, asset: AssetScope
    ) -> None:
        for read in supported(do, READS):
            with pytest.raises(UnknownTaskInstance):
                do(Guarded(LiveAttempt(FIRST), read))

    def test_guarded_writes_succeed_while_the_attempt_is_live(
        self, do: Client, attempt: TaskWriter, scope: StoreScope
    ) -> None:
        do(Guarded(LiveAttempt(attempt), Set(scope, "k", '"in time"', ANN)))
        do(StartAttempt(attempt.scope))
        with pytest.raises(StaleAttempt):
            do(Guarded(LiveAttempt(attempt), Set(scope, "k", '"too late"', ANN)))

        assert do(Get(scope, "k")) == '"in time"'

    @pytest.mark.parametrize("intent", ["app-1", "Ünïcödé 🚀", 'with "quotes" \\'])
    def test_a_job_reads_and_writes_while_its_intent_is_current(
        self, do: Client, task: TaskScope, scope: StoreScope, intent: str
    ) -> None:
        current(do, intent)

        do(while_current(Set(scope, "k", "1", JOB), intent))

        assert do(while_current(Get(scope, "k"), intent)) == "1"
        do(while_current(Delete(scope, "k", JOB), intent))
        assert do(while_current(Get(scope, "k"), intent)) is None

    def test_a_job_outlives_the_attempt_that_submitted_it(
        self, do: Client, attempt: TaskWriter
    ) -> None:
        current(do, "app-1")
        do(FinishAttempt(attempt, succeeded=False))
        do(StartAttempt(attempt.scope))

        do(while_current(Set(TASK, "progress", "1", JOB)))

        assert do(while_current(Get(TASK, "progress"))) == "1"

    @pytest.mark.parametrize("succeeded", [True, False], ids=["success", "failure"])
    def test_a_job_of_an_ended_task_reads_and_writes_nothing_until_the_task_runs_again(
        self, do: Client, attempt: TaskWriter, scope: StoreScope, succeeded: bool
    ) -> None:
        current(do, "app-1")
        do(FinishAttempt(attempt, succeeded))

        for command in (Get(scope, "k"), Set(scope, "k", "1", JOB)):
            with pytest.raises(StaleAttempt, match="has ended"):
                do(while_current(command))
        assert do(Get(scope, "k")) is None

        do(StartAttempt(attempt.scope))
        do(while_current(Set(scope, "k", "1", JOB)))

    def test_a_job_continues_while_its_task_waits_for_a_retry(
        self, do: Client, attempt: TaskWriter, scope: StoreScope
    ) -> None:
        current(do, "app-1")
        retry = Ending(outcome=Outcome.FAILED, state=TaskState.UP_FOR_RETRY)
        do(FinishAttempt(attempt, succeeded=False, ending=retry))

        do(while_current(Set(scope, "k", "1", JOB)))

        assert do(while_current(Get(scope, "k"))) == "1"

    def test_a_superseded_job_reads_and_writes_nothing(
        self, do: Client, task: TaskScope, asset: AssetScope
    ) -> None:
        current(do, "app-1")
        current(do, "app-2")

        self._assert_the_job_is_refused(do)

    def test_a_job_of_a_cleared_task_reads_and_writes_nothing(
        self, do: Client, task: TaskScope, asset: AssetScope
    ) -> None:
        current(do, "app-1")
        do(Clear(task, ANN))

        self._assert_the_job_is_refused(do)

    def test_a_job_whose_intent_has_expired_reads_and_writes_nothing(
        self, do: Client, task: TaskScope, asset: AssetScope, clock: Clock
    ) -> None:
        do(Set(task, INTENT, '"app-1"', JOB, clock() + timedelta(hours=1)))
        clock.forward(timedelta(hours=1))

        self._assert_the_job_is_refused(do)

    def test_an_intent_that_is_not_a_string_does_not_match(
        self, do: Client, task: TaskScope
    ) -> None:
        do(Set(task, INTENT, "17", JOB))

        with pytest.raises(StaleAttempt):
            do(while_current(Get(task, "k"), "17"))

    def test_a_job_of_an_unknown_task_gets_an_error(self, do: Client, asset: AssetScope) -> None:
        for command in (Get(TASK, "k"), Set(TASK, "k", "1", JOB), Set(ORDERS, "k", "1", JOB)):
            with pytest.raises(UnknownTaskInstance):
                do(while_current(command))

    def test_no_job_writes_after_it_was_superseded(self, do: Client, task: TaskScope) -> None:
        for number in range(5):
            current(do, "app-1")
            writes = [while_current(Set(task, f"k{n}", str(number), JOB)) for n in range(4)]

            *versions, replaced = do.together([*writes, Set(task, INTENT, '"app-2"', JOB)])

            for version in versions:
                assert isinstance(version, StaleAttempt) or version < replaced

    def test_a_retried_request_of_a_superseded_job_gets_its_first_answer(
        self, do: Client, task: TaskScope, scope: StoreScope
    ) -> None:
        current(do, "app-1")
        write = Once(RequestId("driver", 1), while_current(Set(scope, "k", "1", JOB)))
        version = do(write)
        current(do, "app-2")

        assert do(write) == version

        with pytest.raises(StaleAttempt):
            do(Once(RequestId("driver", 2), while_current(Set(scope, "k", "2", JOB))))
        assert do(Get(scope, "k")) == "1"

    def test_concurrent_copies_of_a_jobs_request_are_executed_once(
        self, do: Client, task: TaskScope, scope: StoreScope
    ) -> None:
        current(do, "app-1")
        write = Once(RequestId("driver", 1), while_current(Set(scope, "k", "1", JOB)))

        answers = do.together([write] * 8)

        assert len(set(answers)) == 1
        assert do(Get(scope, "k")) == "1"

    def _assert_the_first_attempt_reads_nothing(self, do: Client) -> None:
        for read in supported(do, READS):
            with pytest.raises(StaleAttempt, match="may not read") as refused:
                do(Guarded(LiveAttempt(FIRST), read))
            assert "written" not in refused.value.hint

    def _assert_the_job_is_refused(self, do: Client) -> None:
        commands: list[c.Command[Any]] = [
            Get(TASK, "k"),
            Get(ORDERS, "k"),
            Set(TASK, "k", "1", JOB),
            Set(ORDERS, "k", "1", JOB),
            SetMany(TASK, (("k", "1"),), JOB),
            Clear(TASK, JOB),
        ]
        for command in supported(do, commands):
            with pytest.raises(StaleAttempt, match="not current any more") as refused:
                do(while_current(command))
            assert ("nothing was written" in refused.value.hint) == (not command.reads)
        assert do(Get(TASK, "k")) is None
        assert do(Get(ORDERS, "k")) is None
