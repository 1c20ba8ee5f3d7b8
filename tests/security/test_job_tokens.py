"""Tokens of jobs: they outlive an attempt, but not the task."""

from __future__ import annotations

from uuid import uuid4

import msgspec
import pytest
from talk import ORDERS, Answer, Served

from holdfast import commands as c
from holdfast.access.identity import (
    ChildIdentity,
    HandleIdentity,
    Identity,
    JobIdentity,
    TaskIdentity,
    WorkerIdentity,
)
from holdfast.errors import StaleAttempt
from holdfast.model.run import Ending, Outcome, TaskState
from holdfast.model.scope import AssetScope
from holdfast.model.value import encode
from holdfast.runner.supervisor.endpoint import open_endpoint
from holdfast.server.endpoint import Endpoints
from holdfast.wire.purpose import JobName

ORDERS_SCOPE = AssetScope(name="orders")
ENDINGS = [
    Ending(outcome=Outcome.SUCCESS, state=TaskState.SUCCESS),
    Ending(outcome=Outcome.FAILED, state=TaskState.FAILED),
    Ending(outcome=Outcome.SKIPPED, state=TaskState.SKIPPED),
]


def ask(served: Served, wanted: dict[str, object], bearer: Identity | str) -> Answer:
    return served.ask("POST", "/execution/tokens", wanted, token=bearer)


def job_of(task: TaskIdentity, key: str, intent: str) -> dict[str, object]:
    scope = msgspec.to_builtins(task.scope)
    return {"type": "job", "scope": scope, "key": key, "intent": intent, "assets": [ORDERS]}


def new_intent(served: Served, task: TaskIdentity, key: str = "job.intent") -> str:
    intent = str(uuid4())
    served.store.execute(c.Set(task.scope, key, encode(intent), task.writer))
    return intent


def write(served: Served, token: str) -> Answer:
    path = "/execution/store/asset/by-name/value?name=orders&key=k"
    return served.ask("PUT", path, {"value": "of a zombie"}, token=token)


@pytest.mark.parametrize("bearer", ["task", "worker"])
@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("any key", "any text"),
        ("any key", "8f6c3e0a-6d1b-4d53-9f0e-0a8d7a5b1c2d"),
        ("job.intent", "any text"),
        ("job.intent", "8F6C3E0A-6D1B-4D53-9F0E-0A8D7A5B1C2D"),
        ("job.intent", "../../escape"),
    ],
)
def test_only_an_intent_gets_the_token_of_a_job(
    served: Served, task: TaskIdentity, key: str, text: str, bearer: str
) -> None:
    served.store.execute(c.Set(task.scope, key, encode(text), task.writer))

    answer = ask(served, job_of(task, key, text), {"task": task}.get(bearer, WorkerIdentity("w1")))

    assert (answer.status, answer.reason) == (422, "invalid")


def test_a_handle_gets_no_token_of_a_job(served: Served, task: TaskIdentity) -> None:
    job = job_of(task, "job.intent", new_intent(served, task))
    own = msgspec.to_builtins(HandleIdentity(task.scope))
    handles = [
        ask(served, msgspec.to_builtins(task), WorkerIdentity("w1")).json["token"],
        ask(served, own, task).json["token"],
    ]

    answers = [ask(served, job, handle) for handle in handles]

    assert [answer.status for answer in answers] == [403, 403]
    assert ask(served, job, task).status == 200


@pytest.mark.parametrize("ending", ENDINGS, ids=lambda ending: str(ending.state))
def test_the_token_of_a_job_ends_with_its_task(
    served: Served, task: TaskIdentity, ending: Ending
) -> None:
    token = ask(served, job_of(task, "job.intent", new_intent(served, task)), task).json["token"]
    live = write(served, token).status
    succeeded = ending.outcome is Outcome.SUCCESS
    served.store.execute(c.FinishAttempt(task.writer, succeeded, ending=ending))

    late = write(served, token)

    assert live == 204
    assert (late.status, late.reason) == (409, "stale_attempt")
    assert "refreshed-api-token" not in late.headers


def test_a_zombie_has_no_token_that_writes(served: Served, task: TaskIdentity) -> None:
    zombie = served.token(task)
    handle = ask(served, msgspec.to_builtins(HandleIdentity(task.scope)), zombie).json["token"]
    intent = new_intent(served, task)
    second = served.new_attempt(task.scope.task_id)
    served.put(ORDERS_SCOPE, "k", '"of the second attempt"')

    tries = [write(served, token).status for token in (zombie, handle)]
    tokens = [
        ask(served, wanted, token).status
        for token in (zombie, handle)
        for wanted in (
            job_of(task, "job.intent", intent),
            msgspec.to_builtins(HandleIdentity(task.scope)),
            msgspec.to_builtins(second),
        )
    ]

    assert tries == [409, 409]
    assert set(tokens) <= {403, 409}
    assert served.entries(ORDERS_SCOPE)["k"] == '"of the second attempt"'


def test_a_job_replaced_by_the_next_attempt_writes_nothing(
    served: Served, task: TaskIdentity
) -> None:
    token = ask(served, job_of(task, "job.intent", new_intent(served, task)), task).json["token"]
    new_intent(served, served.new_attempt(task.scope.task_id))

    assert write(served, token).status == 409


def test_a_zombie_behind_the_pipe_gets_no_endpoint(served: Served, task: TaskIdentity) -> None:
    intent = new_intent(served, task)
    child = ChildIdentity(task.writer, task.assets)
    endpoints = Endpoints(served.settings, served.store)
    served.new_attempt(task.scope.task_id)

    for purpose in (None, JobName("job.intent", intent)):
        with pytest.raises(StaleAttempt):
            open_endpoint(endpoints, served.store, child, purpose)


def test_an_intent_is_a_uuid_under_a_key_of_its_kind(task: TaskIdentity) -> None:
    job = JobIdentity(task.scope, "job.intent", str(uuid4()))

    assert msgspec.json.decode(msgspec.json.encode(job), type=JobIdentity) == job
