"""Tokens of ended attempts: useless, and not renewed."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from talk import ORDERS, Answer, Served

from holdfast import commands as c
from holdfast.access.identity import TaskIdentity, WatcherIdentity
from holdfast.model.entry import WatcherWriter
from holdfast.model.run import Process
from holdfast.model.scope import AssetScope
from holdfast.server import tokens as module
from holdfast.wire.codec import JSON

HERE = Process("here", 1, "1")
LEASE = timedelta(seconds=30)
RENEWED = "refreshed-api-token"

COMMANDS: dict[str, Callable[[TaskIdentity], c.Command[Any]]] = {
    "Now": lambda task: c.Now(),
    "Get": lambda task: c.Get(task.scope, "k"),
    "List": lambda task: c.List(task.scope, limit=1),
    "Set": lambda task: c.Set(task.scope, "k", "1", task.writer),
    "Clear": lambda task: c.Clear(task.scope, task.writer),
    "Heartbeat": lambda task: c.Heartbeat(process=HERE, lease=LEASE),
    "ReserveObjects": lambda task: c.ReserveObjects(task.scope, (), task.writer),
    "ReleaseObjects": lambda task: c.ReleaseObjects(task.scope, (), task.writer),
    "TakePurges": lambda task: c.TakePurges(1, LEASE, "taker", c.Part(task.scope)),
    "FinishPurges": lambda task: c.FinishPurges("taker", ()),
    "StartLoad": lambda task: c.StartLoad("load", task.writer),
    "AddToLoad": lambda task: c.AddToLoad("load", 0, 0, (), task.writer),
    "FinishLoad": lambda task: c.FinishLoad("load", (), task.writer),
    "DropLoad": lambda task: c.DropLoad("load", task.writer),
    "PutResult": lambda task: c.PutResult(task.writer, "k", "1"),
    "GetRun": lambda task: c.GetRun(task.scope.dag_id, task.scope.run_id),
    "FinishAttempt": lambda task: c.FinishAttempt(task.writer, False),
}


@pytest.fixture
def half_over(served: Served, monkeypatch: pytest.MonkeyPatch) -> Callable[[Any], str]:
    """Return a function that issues tokens that are due to be renewed."""

    def issue(identity: TaskIdentity | WatcherIdentity) -> str:
        now = time.time()
        with monkeypatch.context() as past:
            past.setattr(module.time, "time", lambda: now - 400)
            return served.token(identity)

    return issue


def send(served: Served, command: c.Command[Any], token: str) -> Answer:
    return served.ask("POST", "/execution/commands", JSON.encode(command), token=token)


@pytest.mark.parametrize("name", COMMANDS)
def test_an_ended_attempt_may_do_nothing_and_gets_no_new_token(
    served: Served, task: TaskIdentity, half_over: Callable[[Any], str], name: str
) -> None:
    token = half_over(task)
    served.store.execute(c.FinishAttempt(task.writer, succeeded=False))

    answer = send(served, COMMANDS[name](task), token)

    assert (answer.status, answer.reason) == (409, "stale_attempt")
    assert RENEWED not in answer.headers


@pytest.mark.parametrize("name", ["Now", "Heartbeat", "ReleaseObjects", "DropLoad"])
def test_a_live_attempt_may_write_and_gets_a_new_token(
    served: Served, task: TaskIdentity, half_over: Callable[[Any], str], name: str
) -> None:
    answer = send(served, COMMANDS[name](task), half_over(task))

    assert answer.status == 200
    assert RENEWED in answer.headers


def test_the_heartbeat_of_an_ended_attempt_reports_it_lost_and_gives_no_new_token(
    served: Served, task: TaskIdentity, half_over: Callable[[Any], str]
) -> None:
    token = half_over(task)
    served.new_attempt(task.scope.task_id)

    heartbeat = c.Heartbeat(process=HERE, lease=LEASE, attempts=(task.writer,))
    answer = send(served, heartbeat, token)

    assert JSON.decode_answer(heartbeat, answer.body).attempts == (task.writer,)
    assert RENEWED not in answer.headers


def test_an_ended_watch_may_do_nothing_and_gets_no_new_token(
    served: Served, half_over: Callable[[Any], str]
) -> None:
    asset = AssetScope(name=ORDERS[0], uri=ORDERS[1])
    start = c.StartWatch(asset=asset, watcher="w", process=HERE, lease=LEASE, dead=HERE)
    token = half_over(WatcherIdentity(served.store.execute(start)))
    served.store.execute(start)

    for command in (
        c.ReserveObjects(asset, (), WatcherWriter()),
        c.ReleaseObjects(asset, (), WatcherWriter()),
        c.Get(asset, "k"),
    ):
        answer = send(served, command, token)
        assert (answer.status, answer.reason) == (409, "stale_attempt")
        assert RENEWED not in answer.headers
