"""Invalid events, results and confs from clients: refused on input."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from talk import ADMIN, Served

from holdfast import commands as c
from holdfast.access.identity import TaskIdentity
from holdfast.model.entry import TaskWriter
from holdfast.model.run import Ending, Outcome, TaskState

DEEP = '{"a":' + "[" * 400 + "]" * 400 + "}"


def success(task: TaskIdentity, **changes: Any) -> Any:
    """Return the end of an attempt, with one event, as it is on the wire."""
    ending = Ending(outcome=Outcome.SUCCESS, state=TaskState.SUCCESS)
    finish = c.FinishAttempt(TaskWriter(task.scope, task.attempt), True, ending=ending)
    body = msgspec.to_builtins(finish)
    event = {"name": "orders", "uri": "s3://lake/orders"} | changes
    body["ending"] |= {"result": event.pop("result", None), "events": [event]}
    return body


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""},
        {"name": "a\nb"},
        {"name": "x" * 100_000},
        {"uri": "x" * 1501},
        {"aliases": [""]},
        {"extra": DEEP},
        {"extra": "[1]"},
        {"extra": "no JSON"},
        {"result": DEEP},
        {"result": ""},
    ],
    ids=str,
)
def test_a_bad_event_or_result_is_refused_and_changes_nothing(
    served: Served, task: TaskIdentity, changes: dict[str, Any]
) -> None:
    answer = served.ask("POST", "/execution/commands", success(task, **changes), token=task)

    assert answer.status == 422
    assert served.ask("GET", "/api/v2/assets/events", token=ADMIN).status == 200
    assert served.ask("POST", "/execution/commands", success(task), token=task).status == 200


@pytest.mark.parametrize("conf", [DEEP, "[1]", "null", "no JSON", ""])
def test_a_bad_conf_is_refused_and_changes_nothing(served: Served, conf: str) -> None:
    body = msgspec.to_builtins(c.CreateRun(dag_id="sales", run_id="new")) | {"conf": conf}

    answer = served.ask("POST", "/execution/commands", body, token=ADMIN)

    assert answer.status == 422
    runs = served.ask("GET", "/api/v2/dags/~/dagRuns", token=ADMIN)
    assert "new" not in {run["dag_run_id"] for run in runs.json["dag_runs"]}
