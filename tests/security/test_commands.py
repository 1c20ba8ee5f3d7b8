"""Invalid commands: refused, never answered with an internal error."""

from __future__ import annotations

from datetime import timedelta

import msgspec
import pytest
from talk import ORDERS, Served

from holdfast import commands as c
from holdfast.access.identity import (
    HandleIdentity,
    Identity,
    TaskIdentity,
    UserIdentity,
    WatcherIdentity,
    WorkerIdentity,
)
from holdfast.model.entry import TaskWriter, WatcherWriter
from holdfast.model.role import Role
from holdfast.model.run import Process, Watch
from holdfast.model.scope import AssetScope
from holdfast.wire.codec import JSON

WORKER = WorkerIdentity("w1")
ASSET = AssetScope(name=ORDERS[0])


@pytest.mark.parametrize("who", [*Role, "handle", "watcher", "task", "worker"])
@pytest.mark.parametrize(
    "fields",
    [
        {"command": "PutResult", "key": "k", "value": "1"},
        {"command": "TakeItem", "digest": "0" * 64},
    ],
    ids=["result", "item"],
)
def test_a_write_of_an_attempt_without_its_number_is_refused(
    served: Served, task: TaskIdentity, who: str, fields: dict[str, str]
) -> None:
    bearers: dict[str, Identity] = {
        **{role: UserIdentity("ann", role) for role in Role},
        "handle": HandleIdentity(task.scope, "ann"),
        "watcher": WatcherIdentity(Watch(ASSET, "w", 1)),
        "task": task,
        "worker": WORKER,
    }
    command = {**fields, "writer": msgspec.to_builtins(TaskWriter(task.scope))}

    answer = served.ask("POST", "/execution/commands", command, token=bearers[who])

    assert (answer.status, answer.reason) == (422, "invalid")
    assert "number of the attempt" in answer.json["detail"]["message"]


def test_a_worker_reserves_and_releases_objects_for_a_watcher(served: Served) -> None:
    process = Process("here", 1, "1")
    commands: list[c.Command[None]] = [
        c.ReserveObjects(ASSET, (("k", "", "x"),), WatcherWriter()),
        c.ReleaseObjects(ASSET, (("k", "", "x"),), WatcherWriter()),
    ]
    served.store.execute(
        c.StartWatch(asset=ASSET, watcher="w", process=process, lease=timedelta(seconds=30))
    )

    answers = [
        served.ask("POST", "/execution/commands", JSON.encode(command), token=WORKER)
        for command in commands
    ]

    assert [answer.status for answer in answers] == [200, 200]


def test_params_of_a_dag_that_are_not_json_are_refused(served: Served) -> None:
    dag = {"dag_id": "d", "file": "f", "tasks": [], "params": "no json"}

    answer = served.ask(
        "POST",
        "/execution/commands",
        {"command": "SaveFile", "file": "f", "dags": [dag]},
        token=UserIdentity("ann", Role.ADMIN),
    )

    assert (answer.status, answer.reason) == (422, "invalid")
    assert "params of DAG `d`" in answer.json["detail"]["message"]
