"""Idempotent requests: a request retried after a lost answer is executed once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast import commands as c
from holdfast.commands import (
    Advance,
    Clear,
    DeclareAsset,
    Delete,
    FinishAttempt,
    ForgetRequests,
    Get,
    GetEntry,
    Once,
    RegisterTask,
    RequestId,
    Set,
    SetMany,
    StartAttempt,
)
from holdfast.errors import (
    StaleAttempt,
    StaleRequest,
    UnknownTaskInstance,
    VersionConflict,
)
from holdfast.model.entry import TaskWriter
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.testing.client import Client
from holdfast.testing.clock import Clock
from holdfast.testing.conformance.fixtures import ANN, TASK, StoreFixtures, supported

FIRST = TaskWriter(TASK, 1)


def request(number: int, inner: c.Command[Any], client: str = "ann") -> Once:
    return Once(RequestId(client, number), inner)


class Requests(StoreFixtures):
    def test_a_retried_request_gets_the_first_answer(self, do: Client, scope: StoreScope) -> None:
        write = request(1, Set(scope, "k", "1", ANN))

        assert do(write) == do(write)

        assert do(Get(scope, "k")) == "1"

    def test_a_retried_request_creates_no_second_version(
        self, do: Client, scope: StoreScope
    ) -> None:
        write = request(1, Set(scope, "k", "1", ANN))
        version = do(write)
        do(write)

        entry = do(GetEntry(scope, "k"))

        assert entry is not None
        assert entry.version == version

    def test_a_retried_request_adds_no_second_version_to_the_history(
        self, do: Client, asset: AssetScope
    ) -> None:
        write = request(1, Set(asset, "k", "1", ANN))
        do(write)
        do(write)

        assert len(do(c.History(asset, "k"))) == 1

    def test_a_retried_request_undoes_no_later_write(self, do: Client, scope: StoreScope) -> None:
        first = request(1, Set(scope, "k", '"first"', ANN))
        answer = do(first)
        do(Set(scope, "k", '"second"', ANN))

        assert do(first) == answer

        assert do(Get(scope, "k")) == '"second"'

    def test_a_request_of_each_kind_gets_its_answer_again(
        self, do: Client, task: TaskScope, asset: AssetScope
    ) -> None:
        do(Set(asset, "watermark", "1", ANN))
        writes = supported(
            do,
            [
                StartAttempt(task),
                Set(task, "k", "1", FIRST),
                SetMany(task, (("a", "1"), ("b", "2")), FIRST),
                Set(asset, "staged", "1", FIRST, on_success=True),
                Advance(asset, "watermark", "7", FIRST),
                c.Rewind(asset, "watermark", c.BeforeRun("monday"), ANN),
                DeclareAsset("customers"),
                RegisterTask(TaskScope("sales", "monday", "Ünïcödé 🚀")),
                Delete(task, "k", FIRST),
                Clear(task, FIRST),
                FinishAttempt(FIRST, succeeded=True),
                c.DeleteRun("sales", "monday"),
                c.DeleteAsset(asset),
            ],
        )

        for number, write in enumerate(writes, start=1):
            once = request(number, write)
            assert do(once) == do(once)

    def test_a_retried_compare_and_set_does_not_conflict_with_itself(
        self, do: Client, scope: StoreScope
    ) -> None:
        write = request(1, Set(scope, "k", "1", ANN, if_version=0))

        assert do(write) == do(write)

    def test_a_retried_finish_of_an_attempt_is_executed_once(
        self, do: Client, attempt: TaskWriter
    ) -> None:
        finish = request(1, FinishAttempt(attempt, succeeded=True))

        assert [do(finish), do(finish)] == [None, None]

    def test_an_attempt_is_started_once(self, do: Client, task: TaskScope) -> None:
        start = request(1, StartAttempt(task))

        assert [do(start), do(start), do(start)] == [1, 1, 1]

    def test_the_answer_to_a_retry_outlives_the_run_it_was_about(self, do: Client) -> None:
        do(RegisterTask(TASK))
        write = request(1, Set(TASK, "k", "1", ANN))
        version = do(write)
        do(c.DeleteRun(TASK.dag_id, TASK.run_id))

        assert do(write) == version

    def test_a_new_request_with_the_same_command_is_executed(
        self, do: Client, scope: StoreScope
    ) -> None:
        write = Set(scope, "k", "1", ANN)

        versions = [do(request(number, write)) for number in (1, 2, 5)]

        assert len(set(versions)) == 3

    def test_an_older_request_is_refused_and_writes_nothing(
        self, do: Client, scope: StoreScope
    ) -> None:
        do(request(1, Set(scope, "k", '"first"', ANN)))
        do(request(3, Set(scope, "k", '"third"', ANN)))

        for number in (1, 2):
            with pytest.raises(StaleRequest, match="request 3"):
                do(request(number, Set(scope, "k", '"late"', ANN)))

        assert do(Get(scope, "k")) == '"third"'

    def test_a_request_number_reused_for_another_command_is_refused_and_writes_nothing(
        self, do: Client, scope: StoreScope
    ) -> None:
        do(request(1, Set(scope, "first", "1", ANN)))
        others: list[c.Command[Any]] = [
            Set(scope, "second", "1", ANN),
            Set(scope, "first", "2", ANN),
            Set(scope, "first", "1", ANN, if_version=0),
            Delete(scope, "first", ANN),
        ]

        for other in supported(do, others):
            with pytest.raises(StaleRequest, match="another command"):
                do(request(1, other))

        assert do(Get(scope, "first")) == "1"
        assert do(Get(scope, "second")) is None

    def test_a_refused_request_can_be_retried(self, do: Client, scope: StoreScope) -> None:
        version = do(Set(scope, "k", '"theirs"', ANN))
        with pytest.raises(VersionConflict):
            do(request(1, Set(scope, "k", '"mine"', ANN, if_version=0)))

        do(request(1, Set(scope, "k", '"mine"', ANN, if_version=version)))

        assert do(Get(scope, "k")) == '"mine"'

    def test_a_request_is_refused_as_its_command_is(
        self, do: Client, task: TaskScope, asset: AssetScope
    ) -> None:
        unknown = TaskScope("sales", "monday", "unknown")
        zombie = TaskWriter(task, 7)

        with pytest.raises(UnknownTaskInstance):
            do(request(1, Set(unknown, "k", "1", ANN)))
        for scope in (task, asset):
            with pytest.raises(StaleAttempt):
                do(request(1, Set(scope, "k", "1", zombie)))

        assert do(Get(task, "k")) is None
        assert do(Get(asset, "k")) is None

    def test_each_client_has_its_own_request_numbers(self, do: Client, scope: StoreScope) -> None:
        clients = ["ann", "Ann", "bob", "x" * 64]

        for client in clients:
            do(request(1, Set(scope, client, f'"{client}"', ANN), client))

        assert [do(Get(scope, client)) for client in clients] == [f'"{name}"' for name in clients]

    def test_a_request_number_may_have_63_bits(self, do: Client, task: TaskScope) -> None:
        write = request(2**63 - 1, Set(task, "k", "1", ANN))

        assert do(write) == do(write)

    @pytest.mark.parametrize("number", [1, 2], ids=["first", "later"])
    def test_concurrent_copies_of_a_request_are_executed_once(
        self, do: Client, scope: StoreScope, number: int
    ) -> None:
        for before in range(1, number):
            do(request(before, Set(scope, "k", '"before"', ANN)))
        write = request(number, Set(scope, "k", '"once"', ANN))

        answers = do.together([write] * 8)

        assert len(set(answers)) == 1
        assert do(Get(scope, "k")) == '"once"'
        entry = do(GetEntry(scope, "k"))
        assert entry is not None
        assert entry.version == answers[0]

    def test_concurrent_copies_of_a_start_request_start_one_attempt(
        self, do: Client, task: TaskScope
    ) -> None:
        assert do.together([request(1, StartAttempt(task))] * 8) == [1] * 8

        assert do(StartAttempt(task)) == 2

    def test_concurrent_copies_of_a_finish_request_end_the_attempt_once(
        self, do: Client, attempt: TaskWriter
    ) -> None:
        finish = request(1, FinishAttempt(attempt, succeeded=True))

        assert do.together([finish] * 8) == [None] * 8

    def test_concurrent_copies_of_a_request_without_locks_are_executed_once(
        self, do: Client
    ) -> None:
        answers = do.together([request(1, RegisterTask(TASK))] * 8)

        assert answers == [None] * 8
        assert do(Get(TASK, "k")) is None

    def test_clients_write_at_the_same_time(self, do: Client, scope: StoreScope) -> None:
        names = [f"client-{number}" for number in range(8)]
        writes = [request(1, Set(scope, "k", "1", ANN), name) for name in names]

        answers = do.together(writes + writes)

        assert answers[:8] == answers[8:]
        assert len(set(answers)) == 8

    def test_inactive_clients_are_forgotten(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        for client in ("silent", "gone", "busy"):
            do(request(5, Set(task, client, "1", ANN), client))
        clock.forward(timedelta(hours=1))
        do(request(6, Set(task, "busy", "1", ANN), "busy"))

        assert do(ForgetRequests(clock())) == 2

        assert do(ForgetRequests(clock())) == 0
        do(request(1, Set(task, "silent", "2", ANN), "silent"))
        with pytest.raises(StaleRequest):
            do(request(1, Set(task, "busy", "2", ANN), "busy"))
        assert do(Get(task, "silent")) == "2"
        assert do(Get(task, "busy")) == "1"

    def test_a_retried_request_is_not_forgotten_earlier(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        write = request(1, Set(task, "k", "1", ANN))
        cutoff = clock()
        do(write)
        do(write)

        assert do(ForgetRequests(cutoff)) == 0
        assert do(ForgetRequests(cutoff + timedelta(microseconds=1))) == 1
