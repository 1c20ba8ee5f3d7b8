"""Pickling of commands, answers, errors and stores."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast import commands as c
from holdfast.errors import HoldfastError
from holdfast.model.entry import Expired, TaskWriter, WatcherWriter
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.testing.client import Client, open_client
from holdfast.testing.conformance.fixtures import ANN, ORDERS, ORDERS_URI, TASK, StoreFixtures

THEN = datetime(2026, 1, 1, tzinfo=UTC)
ATTEMPT = TaskWriter(TASK, 2)

ONE_OF_EACH: list[c.Command[Any]] = [
    c.Get(TASK, "k", ATTEMPT),
    c.GetEntry(ORDERS, "k", ATTEMPT),
    c.List(c.TaskFilter(dag_id="sales"), "p", THEN, THEN, 10, 20, ATTEMPT),
    c.List(c.AssetFilter()),
    c.List(ORDERS),
    c.Set(ORDERS, "k", "1", ATTEMPT, THEN, 3, True),
    c.SetMany(TASK, (("k", "1"),), WatcherWriter(), THEN),
    c.Advance(ORDERS, "k", "1", ATTEMPT, True),
    c.Delete(TASK, "k", ANN),
    c.Clear(TASK, ANN, True),
    c.History(AssetScope(uri=ORDERS_URI), "k"),
    c.Rewind(ORDERS, "k", c.ToVersion(1), ANN, True),
    c.Rewind(ORDERS, "k", c.BeforeRun("monday"), ANN),
    c.Rewind(ORDERS, "k", c.AtTime(THEN), ANN),
    c.RegisterTask(TASK),
    c.ListTasks("sales", "monday"),
    c.DeleteRun("sales", "monday"),
    c.DeclareAsset("orders", ORDERS_URI),
    c.DeclareDagAssets("sales", (("orders", ORDERS_URI),)),
    c.ListAssets(),
    c.DeleteAsset(ORDERS),
    c.StartAttempt(TASK),
    c.FinishAttempt(ATTEMPT, True, True),
    c.Now(),
    c.CountExpired(THEN),
    c.ListExpired(THEN, 10, Expired(1, TASK, "k", THEN)),
    c.DeleteExpired(THEN, 10, True),
    c.TakeExpired(THEN, 10),
    c.CleanUpBackend(),
    c.ListOrphans(THEN),
    c.DeleteOrphans(THEN),
]

REFUSED: list[c.Command[Any]] = [
    c.Get(TaskScope("sales", "monday", "nowhere"), "k"),
    c.Get(AssetScope(name="nothing"), "k"),
    c.Set(ORDERS, "k", "1", ANN, if_version=7),
    c.Set(ORDERS, "k", "1", TaskWriter(TASK, 7)),
    c.Rewind(ORDERS, "k", c.ToVersion(7), ANN),
    c.Advance(ORDERS, "k", "true", ANN),
    c.DeclareAsset("orders", "s3://elsewhere"),
]


def named(command: c.Command[Any]) -> str:
    return type(command).__name__


def through_pickle(thing: Any) -> Any:
    return pickle.loads(pickle.dumps(thing))


class Pickling(StoreFixtures):
    @pytest.mark.parametrize("command", ONE_OF_EACH, ids=named)
    def test_a_command_can_be_pickled(self, command: c.Command[Any]) -> None:
        assert through_pickle(command) == command

    def test_a_pickled_scope_has_the_same_ti_id(self) -> None:
        assert through_pickle(TASK).ti_id == TASK.ti_id

    def test_answers_can_be_pickled(self, do: Client, task: TaskScope, asset: AssetScope) -> None:
        do(c.Set(task, "k", "1", TaskWriter(task), do(c.Now())))
        do(c.Set(asset, "k", "1", ANN))

        answers: list[Any] = [
            do(c.GetEntry(asset, "k")),
            do(c.List(asset)),
            do(c.History(asset, "k")),
            do(c.ListAssets()),
            do(c.ListExpired(do(c.Now()), 10)),
            do(c.Now()),
        ]

        assert through_pickle(answers) == answers

    @pytest.mark.parametrize("command", REFUSED, ids=named)
    def test_errors_can_be_pickled(
        self, do: Client, task: TaskScope, asset: AssetScope, command: c.Command[Any]
    ) -> None:
        with pytest.raises(HoldfastError) as refused:
            do(command)

        error = through_pickle(refused.value)
        assert type(error) is type(refused.value)
        assert (error.message, error.hint) == (refused.value.message, refused.value.hint)

    def test_a_pickled_store_reads_and_writes_the_same_state(
        self, do: Client, scope: StoreScope, store: Any, mode: str
    ) -> None:
        do(c.Set(scope, "k", "1", ANN))

        other = open_client(mode, through_pickle(store))
        seen = other(c.Get(scope, "k"))
        other(c.Set(scope, "k", "2", ANN))
        other.close()

        assert seen == "1"
        assert do(c.Get(scope, "k")) == "2"
