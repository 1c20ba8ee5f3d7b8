"""Issuing of tokens: by workers to attempts, by a task to its jobs, by users to handles."""

from __future__ import annotations

import time
from datetime import timedelta
from uuid import uuid4

import msgspec
import pytest
from talk import ADMIN, ORDERS, Answer, Served

from holdfast import commands as c
from holdfast.access.identity import (
    HandleIdentity,
    Identity,
    JobIdentity,
    TaskIdentity,
    UserIdentity,
    Wanted,
    WorkerIdentity,
)
from holdfast.model.role import Role
from holdfast.model.run import Ending, Outcome, TaskState
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.model.value import encode

WORKER = WorkerIdentity("w1")
TO_BE_RETRIED = Ending(outcome=Outcome.FAILED, state=TaskState.UP_FOR_RETRY)
VIEWER = UserIdentity("vic", Role.VIEWER)


def issue(served: Served, wanted: Wanted, bearer: Identity | str) -> Answer:
    return served.ask("POST", "/execution/tokens", msgspec.json.encode(wanted), token=bearer)


def write(served: Served, scope: TaskScope, token: str) -> int:
    return served.ask(
        "PUT", f"/execution/store/ti/{scope.ti_id}/k", {"value": 1}, token=token
    ).status


def job_of(served: Served, task: TaskIdentity, **changes: object) -> JobIdentity:
    """Return a job whose intent is current."""
    intent = str(uuid4())
    served.store.execute(c.Set(task.scope, "job.intent", encode(intent), task.writer))
    return msgspec.structs.replace(
        JobIdentity(task.scope, "job.intent", intent, task.assets), **changes
    )


def test_a_worker_issues_a_token_to_an_attempt(served: Served, task: TaskIdentity) -> None:
    answer = issue(served, task, WORKER)

    assert answer.status == 200
    assert write(served, task.scope, answer.json["token"]) == 204


def test_an_ended_attempt_gets_no_token(served: Served, task: TaskIdentity) -> None:
    served.store.execute(c.FinishAttempt(task.writer, succeeded=False))

    answer = issue(served, task, WORKER)

    assert (answer.status, answer.reason) == (409, "stale_attempt")


def test_a_task_issues_a_token_to_its_job_that_outlives_it(
    served: Served, task: TaskIdentity
) -> None:
    token = issue(served, job_of(served, task), task).json["token"]
    served.store.execute(c.FinishAttempt(task.writer, succeeded=False, ending=TO_BE_RETRIED))

    assert write(served, task.scope, token) == 204


def test_a_task_whose_attempt_has_ended_issues_no_token(served: Served, task: TaskIdentity) -> None:
    job = job_of(served, task)
    served.new_attempt(task.scope.task_id)

    answer = issue(served, job, task)

    assert (answer.status, answer.reason) == (409, "stale_attempt")


def test_a_job_is_refused_once_its_intent_has_changed(served: Served, task: TaskIdentity) -> None:
    token = issue(served, job_of(served, task), task).json["token"]
    served.store.execute(c.Set(task.scope, "job.intent", encode(str(uuid4())), task.writer))

    assert write(served, task.scope, token) == 409


@pytest.mark.parametrize("bearer", ["task", "viewer", "other"])
def test_others_may_not_issue_a_token_to_an_attempt(
    served: Served, task: TaskIdentity, bearer: str
) -> None:
    bearers = {"task": task, "viewer": VIEWER, "other": served.new_attempt("other")}

    answer = issue(served, task, bearers[bearer])

    assert (answer.status, answer.reason) == (403, "forbidden")


def test_the_handle_of_a_user_expires_with_their_token(served: Served, task: TaskIdentity) -> None:
    mine = served.server.tokens.issue(UserIdentity("ed", Role.EDITOR), timedelta(minutes=5))

    token = issue(served, HandleIdentity(task.scope), mine).json["token"]

    verified = served.server.tokens.verify(token)
    assert verified.identity == HandleIdentity(task.scope, "ed")
    assert verified.expires_at == pytest.approx(time.time() + 300, abs=10)
    assert not verified.renewable


def test_a_task_token_issued_by_a_user_expires_with_theirs(
    served: Served, task: TaskIdentity
) -> None:
    tokens = served.server.tokens
    mine = tokens.issue(UserIdentity("ed", Role.EDITOR), timedelta(seconds=5))

    given = tokens.verify(issue(served, task, mine).json["token"])
    later = tokens.verify(tokens.give(job_of(served, task), given))

    end = pytest.approx(tokens.verify(mine).expires_at, abs=0.1)
    assert (given.expires_at, later.expires_at) == (end, end)
    assert (given.renewable, later.renewable) == (False, False)


def test_an_unknown_scope_gets_no_handle(served: Served) -> None:
    unknown = issue(served, HandleIdentity(TaskScope("sales", "r1", "no such")), ADMIN)
    mistyped = issue(served, HandleIdentity(AssetScope(name="orderz")), ADMIN)

    assert (unknown.status, unknown.reason) == (404, "unknown_task_instance")
    assert (mistyped.status, mistyped.reason) == (404, "unknown_asset")


def test_an_issued_token_is_valid_for_a_week(served: Served, task: TaskIdentity) -> None:
    token = issue(served, task, WORKER).json["token"]

    verified = served.server.tokens.verify(token)
    assert verified.expires_at == pytest.approx(time.time() + 7 * 86400, abs=10)


def test_a_task_may_not_grant_its_job_more_than_it_has(served: Served, task: TaskIdentity) -> None:
    other = served.new_attempt("other")
    greedy = job_of(served, task, assets=(ORDERS, ("customers", "s3://lake/customers")))

    assert issue(served, greedy, task).status == 403
    assert issue(served, job_of(served, other), task).status == 403


@pytest.mark.parametrize("body", [b"", b"{}", b"[]", b'{"type":"user","user":"x","role":"admin"}'])
def test_an_invalid_task_or_job_is_an_error(served: Served, body: bytes) -> None:
    answer = served.ask("POST", "/execution/tokens", body, token=WORKER)

    assert (answer.status, answer.reason) == (422, "invalid")
