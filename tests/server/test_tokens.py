"""Tokens: verification, expiry and renewal; no response shows a token."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any
from uuid import uuid4

import jwt
import msgspec
import pytest
from talk import ADMIN, ORDERS, Answer, Served

from holdfast import commands as c
from holdfast.access.identity import (
    CallbackIdentity,
    ChildIdentity,
    HandleIdentity,
    Identity,
    ImportIdentity,
    JobIdentity,
    TaskIdentity,
    UserIdentity,
    WatcherIdentity,
    WorkerIdentity,
)
from holdfast.errors import Forbidden, InvalidInput
from holdfast.model.entry import TaskWriter
from holdfast.model.role import Role
from holdfast.model.run import Process, Watch
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.server import tokens as module
from holdfast.server.keys import Key, SigningKeys
from holdfast.server.tokens import Tokens
from holdfast.wire.codec import JSON

SCOPE = TaskScope("sales", "r1", "load", 3)
BEARERS: list[Identity] = [
    TaskIdentity(SCOPE, 2, (ORDERS, ("named", None), (None, "s3://by/uri"))),
    WatcherIdentity(Watch(AssetScope(name="orders", uri="s3://lake/orders"), "files", 4)),
    JobIdentity(SCOPE, "job.intent", str(uuid4()), (ORDERS,)),
    HandleIdentity(SCOPE, "ann"),
    HandleIdentity(AssetScope(name="orders"), "ann"),
    WorkerIdentity("worker-1"),
    UserIdentity("ann", Role.EDITOR),
]
SECRET = "s" * 64


@pytest.fixture(scope="module")
def served(make_served: Callable[..., Served]) -> Served:
    """Return a server that signs with the key of the tokens here."""
    return make_served(api__signing_key=SECRET)


def clock_ahead(seconds: float) -> Callable[[], float]:
    now = time.time() + seconds
    return lambda: now


@pytest.fixture
def tokens() -> Tokens:
    return Tokens(SigningKeys((Key(SECRET),)), timedelta(minutes=10))


@pytest.mark.parametrize("identity", BEARERS, ids=lambda identity: type(identity).__name__)
def test_a_token_contains_its_identity(tokens: Tokens, identity: Identity) -> None:
    verified = tokens.verify(tokens.issue(identity))

    assert verified.identity == identity
    assert verified.expires_at == pytest.approx(time.time() + 600, abs=5)


@pytest.mark.parametrize(
    "identity", [ChildIdentity(TaskWriter(SCOPE, 1)), CallbackIdentity("d", "r"), ImportIdentity()]
)
def test_an_identity_behind_a_pipe_gets_no_token(tokens: Tokens, identity: Identity) -> None:
    with pytest.raises(InvalidInput, match="cannot have a token"):
        tokens.issue(identity)


def claims_of(identity: Any = ADMIN, **other: Any) -> dict[str, Any]:
    now = time.time()
    return {
        "aud": "holdfast",
        "iat": now,
        "exp": now + 600,
        "identity": msgspec.to_builtins(identity),
    } | other


def signed(claims: dict[str, Any], secret: str = SECRET, algorithm: str = "HS256") -> str:
    return jwt.encode(claims, secret, algorithm, headers={"kid": Key(SECRET).id})


def without(claims: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in claims.items() if key != name}


def unsigned() -> str:
    return jwt.encode(claims_of(), None, "none", headers={"kid": Key(SECRET).id})


def tampered() -> str:
    head, _, signature = signed(claims_of(UserIdentity("ann", Role.VIEWER))).split(".")
    payload = base64.urlsafe_b64encode(msgspec.json.encode(claims_of())).decode().rstrip("=")
    return f"{head}.{payload}.{signature}"


BAD = {
    "unsigned": unsigned(),
    "unsigned with a signature": unsigned() + signed(claims_of()).rpartition(".")[2],
    "of a foreign key": signed(claims_of(), "f" * 64),
    "of a key that is not known": jwt.encode(claims_of(), SECRET, headers={"kid": "0" * 16}),
    "without the name of a key": jwt.encode(claims_of(), SECRET),
    "of another algorithm": signed(claims_of(), algorithm="HS512"),
    "tampered with": tampered(),
    "truncated": signed(claims_of())[:-5],
    "of two parts": signed(claims_of()).rpartition(".")[0],
    "expired": signed(claims_of(exp=time.time() - 6)),
    "without an end": signed(without(claims_of(), "exp")),
    "with no number as end": signed(claims_of(exp="never")),
    "for somebody else": signed(claims_of(aud="another service")),
    "for nobody": signed(without(claims_of(), "aud")),
    "of nobody": signed(without(claims_of(), "identity")),
    "of what may have none": signed(claims_of(ChildIdentity(TaskWriter(SCOPE, 1)))),
    "of an unknown role": signed(claims_of(identity={"type": "user", "user": "x", "role": "god"})),
    "of a scope that cannot be": signed(
        claims_of(
            identity={
                "type": "task",
                "scope": {"type": "task", "dag_id": "", "run_id": "r", "task_id": "t"},
                "attempt": 1,
            }
        )
    ),
    "empty": "",
    "nonsense": "nonsense",
    "dots": "..",
    "no base64": "ü.ü.ü",
    "long": "x" * 20_000,
}  # fmt: skip


@pytest.mark.parametrize("text", BAD.values(), ids=BAD.keys())
def test_a_bad_token_is_refused_without_being_shown(tokens: Tokens, text: str) -> None:
    with pytest.raises(Forbidden) as caught:
        tokens.verify(text)

    assert caught.value.hint
    assert text == "" or text not in str(caught.value)


def test_a_cached_token_expires(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    text = tokens.issue(ADMIN)
    tokens.verify(text)

    monkeypatch.setattr(module.time, "time", clock_ahead(606))

    with pytest.raises(Forbidden, match="has expired"):
        tokens.verify(text)


def test_a_server_whose_clock_is_seconds_ahead_accepts_a_token_until_its_end(
    tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    known, new = tokens.issue(ADMIN), tokens.issue(WorkerIdentity("w"))
    tokens.verify(known)

    monkeypatch.setattr(module.time, "time", clock_ahead(604))

    assert tokens.verify(known).identity == ADMIN
    assert tokens.verify(new).identity == WorkerIdentity("w")


def test_the_number_of_cached_tokens_is_bounded(
    tokens: Tokens, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_REMEMBERED", 3)
    texts = [tokens.issue(WorkerIdentity(str(number))) for number in range(10)]

    for text in texts:
        tokens.verify(text)

    assert len(tokens._known) == 3
    assert all(tokens.verify(text).identity for text in texts)


@pytest.mark.parametrize("identity", BEARERS, ids=lambda identity: type(identity).__name__)
def test_a_token_is_renewed_in_the_second_half_of_its_life_unless_it_is_a_users(
    tokens: Tokens, identity: Identity, monkeypatch: pytest.MonkeyPatch
) -> None:
    verified = tokens.verify(tokens.issue(identity, timedelta(minutes=4)))
    early = tokens.renewed(verified)

    monkeypatch.setattr(module.time, "time", clock_ahead(150))
    late = tokens.renewed(verified)

    assert early is None
    if isinstance(identity, UserIdentity | HandleIdentity):
        assert late is None
    else:
        assert late is not None
        fresh = tokens.verify(late)
        assert fresh.identity == identity
        assert fresh.expires_at == pytest.approx(verified.issued_at + 150 + 240, abs=5)


def read(task: TaskIdentity) -> str:
    return f"/execution/store/ti/{task.scope.ti_id}/a"


def test_the_response_to_a_request_without_a_token_says_how_to_send_one(
    served: Served, task: TaskIdentity
) -> None:
    for headers in ({}, {"Authorization": "Basic YTpi"}, {"Authorization": "Bearer "}):
        answer = served.ask("PUT", read(task), {"value": 1}, **headers)

        assert (answer.status, answer.reason) == (401, "unauthorized")
        assert answer.headers["www-authenticate"] == "Bearer"
    assert served.entries(task.scope) == {}


@pytest.mark.parametrize("text", [text for text in BAD.values() if text.isascii() and text])
def test_a_bad_token_is_403_and_writes_nothing(
    served: Served, task: TaskIdentity, text: str
) -> None:
    answer = served.ask("PUT", read(task), {"value": 1}, token=text)

    assert (answer.status, answer.reason) == (403, "token_refused")
    assert text.encode() not in answer.body
    assert served.entries(task.scope) == {}


def test_a_token_in_the_query_is_ignored(served: Served, task: TaskIdentity) -> None:
    answer = served.ask("GET", f"{read(task)}?token={served.token(task)}")

    assert (answer.status, answer.reason) == (401, "unauthorized")


def test_another_tasks_store_is_forbidden(served: Served, task: TaskIdentity) -> None:
    other = served.new_attempt("another")

    answers = [
        served.ask("PUT", read(other), {"value": 1}, token=task),
        served.ask("GET", read(other), token=task),
        served.ask("DELETE", read(other), token=task),
        served.ask("DELETE", read(other).removesuffix("/a"), token=task),
    ]

    assert [(answer.status, answer.reason) for answer in answers] == [(403, "forbidden")] * 4
    assert served.entries(other.scope) == {}


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
def test_an_asset_that_the_task_did_not_declare_is_forbidden(
    served: Served, task: TaskIdentity, method: str
) -> None:
    served.store.execute(c.DeclareAsset("secret"))
    path = "/execution/store/asset/by-name/value?name=secret&key=a"
    body = {"value": 1} if method == "PUT" else None

    answer = served.ask(method, path, body, token=task)

    assert (answer.status, answer.reason) == (403, "forbidden")
    assert served.entries(AssetScope(name="secret")) == {}


def end_by_success(served: Served, task: TaskIdentity) -> None:
    served.store.execute(c.FinishAttempt(task.writer, succeeded=True))


def end_by_failure(served: Served, task: TaskIdentity) -> None:
    served.store.execute(c.FinishAttempt(task.writer, succeeded=False))


def supersede(served: Served, task: TaskIdentity) -> None:
    served.store.execute(c.StartAttempt(task.scope))


@pytest.mark.parametrize("end", [end_by_success, end_by_failure, supersede])
def test_a_token_is_invalid_after_its_attempt(served: Served, task: TaskIdentity, end: Any) -> None:
    orders = "/execution/store/asset/by-name/value?name=orders&key=stale"
    commands = [c.Get(task.scope, "a"), c.Set(task.scope, "a", "2", task.writer), c.Now()]
    served.put(task.scope, "a", "1")
    end(served, task)

    answers = [
        served.ask("GET", read(task), token=task),
        served.ask("PUT", read(task), {"value": 2}, token=task),
        served.ask("DELETE", read(task), token=task),
        served.ask("DELETE", read(task).removesuffix("/a"), token=task),
        served.ask("GET", orders, token=task),
        served.ask("PUT", orders, {"value": 2}, token=task),
        *(
            served.ask("POST", "/execution/commands", JSON.encode(command), token=task)
            for command in commands
        ),
    ]

    assert [(answer.status, answer.reason) for answer in answers] == [(409, "stale_attempt")] * 9
    assert served.entries(task.scope) == {"a": "1"}
    assert "stale" not in served.entries(AssetScope(name="orders"))


@pytest.fixture
def old(served: Served, task: TaskIdentity, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return a token whose lifetime is more than half over."""
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 400)
    token = served.server.tokens.issue(task, timedelta(seconds=600))
    monkeypatch.undo()
    return token


def heartbeat(served: Served, task: TaskIdentity, token: str) -> Answer:
    command = c.Heartbeat(
        process=Process("host", 1, "x"), lease=timedelta(minutes=1), attempts=(task.writer,)
    )
    return served.ask("POST", "/execution/commands", JSON.encode(command), token=token)


def test_a_token_is_renewed_while_its_attempt_is_live(
    served: Served, task: TaskIdentity, old: str
) -> None:
    served.put(task.scope, "a", "1")
    answers = [
        served.ask("GET", read(task), token=old),
        served.ask("GET", read(task) + "missing", token=old),
        served.ask("PUT", read(task), {"value": 2}, token=old),
        heartbeat(served, task, old),
    ]

    assert [answer.status for answer in answers] == [200, 404, 204, 200]
    for answer in answers:
        fresh = answer.headers["refreshed-api-token"]
        assert served.server.tokens.verify(fresh).identity == task
        assert served.ask("GET", read(task), token=fresh).status == 200


def test_a_young_token_is_not_renewed(served: Served, task: TaskIdentity) -> None:
    assert "refreshed-api-token" not in served.ask("GET", read(task), token=task).headers


def test_a_token_is_not_renewed_once_its_attempt_has_ended(
    served: Served, task: TaskIdentity, old: str
) -> None:
    finish = JSON.encode(c.FinishAttempt(task.writer, succeeded=False))
    answers = [
        served.ask("POST", "/execution/commands", finish, token=old),
        served.ask("GET", "/execution/commands", token=old),
        heartbeat(served, task, old),
        served.ask("GET", read(task), token=old),
    ]

    assert [answer.status for answer in answers] == [200, 200, 200, 409]
    assert all("refreshed-api-token" not in answer.headers for answer in answers)
