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
    WorkerIdentity,
)
from holdfast.model.entry import TaskWriter, WatcherWriter
from holdfast.model.role import Role
from holdfast.model.run import Process
from holdfast.model.scope import AssetScope
from holdfast.wire.codec import JSON

WORKER = WorkerIdentity("w1")
ASSET = AssetScope(name=ORDERS[0])


@pytest.mark.parametrize("who", ["viewer", "editor", "admin", "handle", "task", "worker"])
def test_a_result_without_attempt_is_refused(served: Served, task: TaskIdentity, who: str) -> None:
    bearers: dict[str, Identity] = {
        **{role: UserIdentity("ann", role) for role in Role},
        "handle": HandleIdentity(task.scope, "ann"),
        "task": task,
        "worker": WORKER,
    }
    result = {
        "command": "PutResult",
        "writer": msgspec.to_builtins(TaskWriter(task.scope)),
        "key": "k",
        "value": "1",
    }

    answer = served.ask("POST", "/execution/commands", result, token=bearers[who])

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
