"""Bounds of lists in commands, which a store iterates over while other writers wait."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from talk import Served

from holdfast import commands as c
from holdfast.access.identity import TaskIdentity, UserIdentity
from holdfast.errors import InvalidInput
from holdfast.model.entry import ApiWriter, TaskWriter, WatcherWriter
from holdfast.model.role import Role
from holdfast.model.run import (
    MAX_ERROR_LENGTH,
    EmittedEvent,
    Ending,
    Outcome,
    Process,
    RunKind,
    RunState,
    TaskState,
    Watch,
)
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.model.value import as_reference
from holdfast.portable import report_tables
from holdfast.portable.client import COMMANDS
from holdfast.portable.json_rules import MOST_LISTED
from holdfast.server.execution.content import decode_command
from holdfast.stores.http import HttpStore
from holdfast.wire.codec import JSON

ANN = ApiWriter("ann")
TASK = TaskScope("sales", "monday", "load")
ORDERS = AssetScope(name="orders")
PROCESS = Process("here", 1, "t0")
WATCH = Watch(ORDERS, "files", 1)
PLACE = as_reference("s3://lake/a")
SECOND = timedelta(seconds=1)
EVENT = EmittedEvent("orders", "s3://lake/orders")


def ending(number: int) -> Ending:
    return Ending(outcome=Outcome.SUCCESS, state=TaskState.SUCCESS, events=(EVENT,) * number)


def emit(number: int) -> c.Emit:
    half = number // 2
    many = c.SetMany(ORDERS, (("k", "1"),) * half, WatcherWriter())
    return c.Emit(WATCH, (many, *(c.Delete(ORDERS, "k", WatcherWriter()),) * (number - half)))


LISTS: dict[str, tuple[int, Callable[[int], c.Command[Any]]]] = {
    "SetMany": (c.MOST_WRITES, lambda n: c.SetMany(TASK, (("k", "1"),) * n, ANN)),
    "FinishAttempt": (
        c.MOST_WRITES,
        lambda n: c.FinishAttempt(TaskWriter(TASK, 1), True, ending=ending(n)),
    ),
    "ReserveObjects": (
        c.MOST_PURGES,
        lambda n: c.ReserveObjects(TASK, (("k", PLACE, "r"),) * n, ANN),
    ),
    "ReleaseObjects": (
        c.MOST_PURGES,
        lambda n: c.ReleaseObjects(TASK, (("k", PLACE, "r"),) * n, ANN),
    ),
    "QueueObjects": (c.MOST_PURGES, lambda n: c.QueueObjects(((TASK, "k", PLACE),) * n)),
    "FinishPurges.gone": (c.MOST_PURGES, lambda n: c.FinishPurges("me", (1,) * n)),
    "FinishPurges.failed": (
        c.MOST_PURGES,
        lambda n: c.FinishPurges("me", (), ((1, "no"),) * n),
    ),
    "AddToLoad.lots": (
        c.MOST_ADDED,
        lambda n: c.AddToLoad("one", 0, 0, (c.ScopeEntries(TASK, ()),) * n, ANN),
    ),
    "AddToLoad.entries": (
        c.MOST_ADDED,
        lambda n: c.AddToLoad("one", 0, 0, (c.ScopeEntries(TASK, (("k", "1", None),) * n),), ANN),
    ),
    "FinishLoad": (c.MOST_PARTS, lambda n: c.FinishLoad("one", ((1, 1),) * n, ANN)),
    "ClearTasks": (
        c.MOST_WRITES,
        lambda n: c.ClearTasks(dag_id="d", run_id="r", tasks=(("t", None),) * n, writer=ANN),
    ),
    "Heartbeat.runs": (
        c.MOST_LEASES,
        lambda n: c.Heartbeat(process=PROCESS, lease=SECOND, runs=(("d", "r"),) * n),
    ),
    "Heartbeat.attempts": (
        c.MOST_LEASES,
        lambda n: c.Heartbeat(process=PROCESS, lease=SECOND, attempts=(TaskWriter(TASK, 1),) * n),
    ),
    "Heartbeat.watches": (
        c.MOST_LEASES,
        lambda n: c.Heartbeat(process=PROCESS, lease=SECOND, watches=(WATCH,) * n),
    ),
    "Emit": (c.MOST_WRITES, emit),
    "ListRuns.states": (len(RunState), lambda n: c.ListRuns(states=(RunState.RUNNING,) * n)),
    "ListRuns.kinds": (len(RunKind), lambda n: c.ListRuns(kinds=(RunKind.MANUAL,) * n)),
    "ListTaskInstances": (
        len(TaskState),
        lambda n: c.ListTaskInstances(states=(TaskState.RUNNING,) * n),
    ),
    "Scan": (
        report_tables.MOST_TESTS,
        lambda n: c.Scan(
            table="runs", columns=("dag_id",), tests=(c.Test("dag_id", "=", ("d",)),) * n, limit=1
        ),
    ),
}


@pytest.mark.parametrize("name", LISTS)
def test_a_list_has_a_limit_that_its_error_names(name: str) -> None:
    most, made = LISTS[name]

    made(most)
    with pytest.raises(InvalidInput) as caught:
        made(most + 1)

    assert f"{most + 1:,} " in caught.value.message
    assert f"{most:,} at most" in caught.value.hint


def test_a_list_over_the_limit_is_refused_as_it_arrives() -> None:
    numbers = ",".join(["1"] * (c.MOST_PURGES + 1))
    body = f'{{"command":"FinishPurges","taker":"me","gone":[{numbers}]}}'.encode()

    with pytest.raises(InvalidInput, match="10,001 objects"):
        decode_command(body, TaskIdentity(TASK, 1, ()), 0)


def test_a_list_without_a_limit_is_refused_and_clients_ask_for_pages(served: Served) -> None:
    viewer = UserIdentity("eve", Role.VIEWER)
    served.store.execute(c.RegisterTask(TASK))
    names = [f"{number:04}" for number in range(MOST_LISTED + 1)]
    served.store.execute(c.SetMany(TASK, tuple((name, "1") for name in names), ANN))

    raw = served.ask("POST", COMMANDS, JSON.encode(c.List(TASK)), token=viewer)
    with HttpStore(served.server.url, served.token(viewer)) as store:
        page = store.execute(c.List(TASK))

    assert raw.status == 422
    assert b"`limit` is 1,000 at most" in raw.body
    assert [found.entry.key for found in page.found] == names


def test_the_error_of_a_failed_task_is_truncated() -> None:
    long = "x" * 1_000_000
    failed = {"outcome": Outcome.FAILED, "state": TaskState.FAILED}

    kept = [
        Ending(**failed, error=long).error,
        c.TaskChange("load", -1, TaskState.FAILED, long).error,
        c.MarkTask(scope=TASK, state=TaskState.FAILED, writer=ANN, reason=long).reason,
    ]

    assert [len(error) for error in kept] == [MAX_ERROR_LENGTH] * 3
