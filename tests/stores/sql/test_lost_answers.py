"""Idempotent requests on each database, with lost answers to commits, and their cost."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from servers import ServerDatabase

from holdfast import commands as c
from holdfast.commands import Guarded, LiveAttempt, Once, RequestId
from holdfast.errors import NotSupported, StaleRequest, StoreUnavailable
from holdfast.model.entry import TaskWriter
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.stores.sql import SqlStore

TASK = TaskScope("sales", "monday", "load")
ORDERS = AssetScope(name="orders")
FIRST = TaskWriter(TASK, 1)


class Unlucky(SqlStore):
    """Store that loses its connection just after a commit, on request."""

    loses_next = False

    def _drive(self, *args: Any) -> Any:
        answer = super()._drive(*args)
        if self.loses_next:
            self.loses_next = False
            args[-1].committing = True
            raise ConnectionResetError("the answer is lost")
        return answer


@pytest.fixture
def store(database_url: str) -> Iterator[Unlucky]:
    with Unlucky(database_url, retry_window=timedelta(seconds=10)) as store:
        store.execute(c.RegisterTask(TASK))
        store.execute(c.DeclareAsset("orders"))
        store.execute(c.StartAttempt(TASK))
        yield store


def test_a_retried_end_with_a_lost_answer_is_recorded_once(store: Unlucky) -> None:
    store.loses_next = True
    with pytest.raises(StoreUnavailable, match="may or may not have happened"):
        store.execute(c.FinishAttempt(FIRST, succeeded=False))

    store.execute(c.StartAttempt(TASK))
    store.loses_next = True
    finish = c.FinishAttempt(TaskWriter(TASK, 2), succeeded=False)
    store.execute(Once(RequestId("worker", 1), finish))


@pytest.mark.parametrize("scope", [TASK, ORDERS], ids=["task", "asset"])
@pytest.mark.parametrize("if_version", [None, 0], ids=["plain", "compared"])
def test_a_write_whose_answer_is_lost_is_one_version(
    store: Unlucky, scope: TaskScope | AssetScope, if_version: int | None
) -> None:
    store.loses_next = True
    write = c.Set(scope, "k", "1", FIRST, if_version=if_version)

    version = store.execute(Once(RequestId("worker", 1), write))

    entry = store.execute(c.GetEntry(scope, "k"))
    assert entry is not None
    assert entry.version == version


def test_a_request_number_reused_for_another_command_is_refused(store: Unlucky) -> None:
    store.execute(Once(RequestId("worker", 1), c.Set(TASK, "k", "1", FIRST)))

    with pytest.raises(StaleRequest, match="another command"):
        store.execute(Once(RequestId("worker", 1), c.DeclareAsset("customers")))

    assert [asset.name for asset in store.execute(c.ListAssets())] == ["orders"]


def test_commands_for_custom_backends_are_refused(store: Unlucky) -> None:
    for command in (c.CleanUpBackend(), Once(RequestId("admin", 1), c.CleanUpBackend())):
        with pytest.raises(NotSupported, match="CleanUpBackend"):
            store.execute(command)


class Counting(SqlStore):
    """Store that counts its statements."""

    statements = 0

    def _run(self, *args: Any) -> Any:
        self.statements += 1
        return super()._run(*args)


def test_the_most_frequent_commands_are_one_statement(postgres_database: ServerDatabase) -> None:
    own = LiveAttempt(FIRST)
    commands = [
        Once(RequestId("task", 1), c.Set(TASK, "k", "1", FIRST)),
        Once(RequestId("task", 2), c.Set(TASK, "k", "2", FIRST)),
        Guarded(own, c.Get(TASK, "k", reader=FIRST)),
        Guarded(own, c.Get(TASK, "absent", reader=FIRST)),
    ]
    with Counting(postgres_database.empty()) as store:
        store.execute(c.RegisterTask(TASK))
        store.execute(c.StartAttempt(TASK))
        store.statements = 0
        for command in commands:
            store.execute(command)

    assert store.statements == len(commands)
