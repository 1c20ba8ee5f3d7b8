"""Operations between whose statements another client deletes the run or asset in question."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from servers import ServerDatabase

from holdfast import commands as c
from holdfast.commands import CurrentIntent, Guarded
from holdfast.errors import UnknownAsset, UnknownTaskInstance
from holdfast.model.entry import ApiWriter
from holdfast.model.run import Process
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.stores.sql import SqlStore
from holdfast.stores.sql.dialects.sqlite import SQLite
from holdfast.stores.sql.operations import operation_for, registry
from holdfast.stores.sql.operations.steps import BEGIN, Context, Steps
from holdfast.stores.sql.statements import events as e

ANN = ApiWriter("ann")
TASK = TaskScope("etl", "r1", "load")
ORDERS = AssetScope(name="orders")
ORDERS_ROW = (7, "orders", "s3://orders", None, 3)
CONTEXT = Context(SQLite(), 100)
INTENT = "0b6f1f4e-2f7c-4f43-9a55-0f2a9d3c1e10"
NOTHING: list[Any] = []


def answered(steps: Steps[Any], answers: Sequence[Any]) -> list[Any]:
    """Send these answers to an operation; return the statements that it asks for, in order."""
    asked = [next(steps)[0]]
    for answer in answers:
        asked.append(steps.send(answer)[0])
    return asked


def test_a_run_that_is_deleted_while_it_is_registered_is_added_again() -> None:
    steps = registry.register_task(CONTEXT, c.RegisterTask(TASK))

    _, add, find, add_again, find_again = answered(steps, [None, 0, NOTHING, 1])

    assert (add_again, find_again) == (add, find)


def test_an_asset_that_is_deleted_while_it_is_declared_is_added_again() -> None:
    steps = registry.declare(CONTEXT, "orders", "s3://orders")

    add, find, add_again, find_again = answered(steps, [0, NOTHING, 1])

    assert (add_again, find_again) == (add, find)
    with pytest.raises(StopIteration) as end:
        steps.send([ORDERS_ROW])
    assert end.value.value == 7


def test_an_asset_that_is_deleted_before_it_is_declared_by_hand_is_looked_up_again() -> None:
    steps = registry.declare_asset(CONTEXT, c.DeclareAsset("orders"))

    _, find, _, begin, find_again = answered(steps, [None, [(7,)], 0, None])

    assert (begin, find_again) == (BEGIN[0], find)


def test_the_key_of_an_event_is_looked_up_before_and_after_the_asset_is_locked() -> None:
    emit = c.EmitAssetEvent(scope=ORDERS, writer=ANN, key="monday")
    steps = operation_for(emit)(CONTEXT, emit)
    found, locked = [(7, "orders", "s3://orders")], [(7, 3, None)]

    asked = answered(steps, [None, found, NOTHING, locked, NOTHING, 1, 1])

    assert [asked.index(e.event_of_key()), asked.count(e.event_of_key())] == [2, 2]
    assert asked[4:] == [e.event_of_key(), e.count_event(), e.add_event(), e.events("id")]


@pytest.mark.parametrize(
    ("command", "answers", "error"),
    [
        (c.GetAsset(ORDERS), [NOTHING], UnknownAsset),
        (c.Clear(TASK, ANN, all_map_indices=True), [None, [(TASK.ti_text,)]], UnknownTaskInstance),
    ],
    ids=lambda given: type(given).__name__,
)
def test_a_deleted_scope_is_unknown(
    command: c.Command[Any], answers: list[Any], error: type[Exception]
) -> None:
    steps = operation_for(command)(CONTEXT, command)
    answered(steps, answers)

    with pytest.raises(error):
        while True:
            steps.send(NOTHING)


def test_a_task_that_is_deleted_while_its_intent_is_checked_has_not_ended() -> None:
    guarded = Guarded(CurrentIntent(TASK, "job.intent", INTENT), c.Now())
    steps = operation_for(guarded)(CONTEXT, guarded)

    answered(steps, [[(f'"{INTENT}"',)], NOTHING])


@pytest.mark.parametrize(
    "answers", [[[(9,)], [(None, None)]], [[(9,)], [(1, 9)], [(1,) * 256], []]]
)
def test_a_table_that_is_emptied_while_its_scan_is_planned_is_one_range(answers: list[Any]) -> None:
    plan = c.PlanScan("asset_store", 3, 1)
    steps = operation_for(plan)(CONTEXT, plan)
    answered(steps, answers[:-1])

    with pytest.raises(StopIteration) as end:
        steps.send(answers[-1])

    assert end.value.value == ()


def test_a_row_whose_owner_was_deleted_meanwhile_is_tried_again(
    postgres_database: ServerDatabase,
) -> None:
    owners = [999_999, 1]
    watch = {"watcher": "w", "count": 1, "process": "{}", "lease": 1}

    def add_watcher(context: Context, command: c.Now) -> Steps[None]:
        yield BEGIN
        yield e.add_watcher(), watch | {"owner": owners.pop(0)}

    with SqlStore(postgres_database.empty()) as store:
        asset = store.execute(c.DeclareAsset("orders"))
        owners[-1] = asset.asset_id

        store.run(add_watcher, c.Now())

        process = Process("h", 1, "x")
        started = store.execute(
            c.StartWatch(asset=ORDERS, watcher="w", process=process, lease=timedelta(seconds=1))
        )
    assert started.number == 2
