"""Fuzzing with tokens of all kinds: no internal errors, and no access to foreign entries.

The number of requests grows with --rounds. A request is identified by its seed, which is printed
when it fails.
"""

from __future__ import annotations

import base64
import hmac
import http.client
import json
import random
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import jwt
import pytest
from random_requests import CONTENT_TYPES, Requests
from talk import ADMIN, ORDERS, Answer, Served

from holdfast import commands as c
from holdfast.access.identity import (
    HandleIdentity,
    Identity,
    JobIdentity,
    UserIdentity,
    WatcherIdentity,
    WorkerIdentity,
)
from holdfast.connection import open_store
from holdfast.model.entry import Entry, TaskWriter
from holdfast.model.role import Role
from holdfast.model.run import Process
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.settings import load

pytestmark = pytest.mark.chaos

SECRET = "s" * 64
COMMANDS = "/execution/commands"
FOREIGN_TASK = TaskScope("sales", "r1", "foreign")
FOREIGN_ASSET = ("secrets", "s3://lake/secrets")
CONFINED = ("task", "handle", "job", "watcher", "viewer")
"""Bearers that may not write to foreign entries."""
BEARERS = (*CONFINED, "editor", "admin", "worker")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    """Yield a server without a rate limit, for one test: random commands delete anything."""
    environ = {
        "HOLDFAST__API__RATE_LIMIT": "0",
        "HOLDFAST__API__SIGNING_KEY": SECRET,
        "HOLDFAST__API__ACCESS_LOG": "false",
    }
    settings = load(tmp_path, environ)
    served = Served(open_store(settings), settings)
    yield served
    served.close()


class Fuzzed:
    """Server under random requests, and the entries that they may not change."""

    def __init__(self, served: Served, log: pytest.LogCaptureFixture) -> None:
        self.served = served
        self._log = log
        self._connection = http.client.HTTPConnection(served.address, timeout=60)
        store = served.store
        store.execute(c.RegisterTask(FOREIGN_TASK))
        store.execute(c.DeclareAsset(*ORDERS))
        store.execute(c.DeclareAsset(*FOREIGN_ASSET))
        self.task = served.new_attempt(f"own {uuid4()}")
        self._foreign = (FOREIGN_TASK, AssetScope(name=FOREIGN_ASSET[0]))
        for scope in self._foreign:
            served.put(scope, "sentinel", '"untouched"')
        self._before = self._sentinels()

    def identity(self, who: str) -> Identity:
        scope = self.task.scope
        if who in tuple(Role):
            return UserIdentity("mallory", Role(who))
        if who == "handle":
            return HandleIdentity(scope, "mallory")
        if who == "job":
            intent = str(uuid4())
            self.served.put(scope, "spark_job.intent", json.dumps(intent))
            return JobIdentity(scope, "spark_job.intent", intent, (ORDERS,))
        if who == "watcher":
            start = c.StartWatch(
                asset=AssetScope(name=ORDERS[0]),
                watcher="w",
                process=Process("here", 1, "1"),
                lease=timedelta(minutes=30),
            )
            return WatcherIdentity(self.served.store.execute(start))
        return WorkerIdentity("w1") if who == "worker" else self.task

    def requests(self, seed: str) -> Requests:
        own, other = self.task.scope, FOREIGN_TASK
        assets = [AssetScope(name=ORDERS[0]), AssetScope(name=FOREIGN_ASSET[0])]
        values = [
            *(own, other, *assets, AssetScope(uri=ORDERS[1])),
            *(TaskWriter(scope, attempt) for scope in (own, other) for attempt in (None, 1)),
        ]
        parameters = {
            "dag_id": [own.dag_id],
            "run_id": [own.run_id],
            "task_id": [own.task_id, other.task_id],
            "ti_id": [own.ti_text, other.ti_text],
            "asset_id": ["1", "2", "3"],
            "key": ["k", "sentinel"],
            "name": [ORDERS[0], FOREIGN_ASSET[0]],
            "uri": [ORDERS[1], FOREIGN_ASSET[1]],
            "value": ["1", '"text"', '{"a":[null]}'],
            "conf": ["{}", '{"a":1}'],
            "table": ["task_store", "asset_store", "asset_history", "runs"],
        }
        return Requests(seed, values, parameters)

    def send(
        self, seed: str, method: str, path: str, body: Any, token: str, **headers: str
    ) -> Answer:
        """Send a request, and check its response."""
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
        sent = {"Authorization": f"Bearer {token}"}
        if body is not None:
            sent["Content-Type"] = "application/json"
        sent |= {name.replace("_", "-"): text for name, text in headers.items()}
        told = f"{seed}: {method} {path[:500]} {str(body)[:1000]}"
        try:
            self._connection.request(method, path, body, sent)
            response = self._connection.getresponse()
            answered = {name.lower(): text for name, text in response.getheaders()}
            answer = Answer(response.status, answered, response.read())
        except (OSError, http.client.HTTPException) as error:
            self._connection.close()
            raise AssertionError(f"{told}\nwas not answered: {error!r}") from error
        assert answer.status < 500 or answer.status == 501, f"{told}\n{answer}"
        assert "Traceback" not in self._log.text, f"{told}\n{self._log.text[-5000:]}"
        self._log.clear()
        return answer

    def assert_foreign_entries_are_untouched(self) -> None:
        assert self._sentinels() == self._before

    def assert_it_still_serves(self) -> None:
        put = f"/execution/store/ti/{self.served.new_attempt(str(uuid4())).scope.ti_id}/k"
        assert self.served.ask("GET", "/health").status == 200
        assert self.served.ask("PUT", put, {"value": 1}, token=ADMIN).status in (204, 403)

    def _sentinels(self) -> list[Entry[str] | None]:
        return [self.served.store.execute(c.GetEntry(one, "sentinel")) for one in self._foreign]


@pytest.fixture
def fuzzed(served: Served, caplog: pytest.LogCaptureFixture) -> Fuzzed:
    return Fuzzed(served, caplog)


@pytest.mark.parametrize("who", BEARERS)
def test_random_commands_are_answered_or_refused(fuzzed: Fuzzed, rounds: int, who: str) -> None:
    token = fuzzed.served.token(fuzzed.identity(who))

    for number in range(52 * rounds):
        seed = f"command {who} {number}"
        requests = fuzzed.requests(seed)
        make = requests.draw.choice((requests.command, requests.altered_command))
        fuzzed.send(seed, "POST", COMMANDS, make(), token)

    if who in CONFINED:
        fuzzed.assert_foreign_entries_are_untouched()
    fuzzed.assert_it_still_serves()


@pytest.mark.parametrize("who", BEARERS)
def test_corrupted_bodies_are_refused(fuzzed: Fuzzed, rounds: int, who: str) -> None:
    token = fuzzed.served.token(fuzzed.identity(who))

    for number in range(6 * rounds):
        seed = f"body {who} {number}"
        requests = fuzzed.requests(seed)
        own = f"/execution/store/ti/{fuzzed.task.scope.ti_id}/k"
        method, path = requests.draw.choice((("POST", COMMANDS), ("PUT", own)))
        body = requests.corrupted(json.dumps(requests.command()).encode())
        kind = requests.draw.choice((*CONTENT_TYPES, *["application/json"] * 12))
        fuzzed.send(seed, method, path, body, token, Content_Type=kind)

    if who in CONFINED:
        fuzzed.assert_foreign_entries_are_untouched()
    fuzzed.assert_it_still_serves()


@pytest.mark.parametrize("role", list(Role))
def test_random_requests_of_the_public_api_are_answered_or_refused(
    fuzzed: Fuzzed, rounds: int, role: Role
) -> None:
    token = fuzzed.served.token(UserIdentity("mallory", role))
    description = fuzzed.served.ask("GET", "/openapi.json").json

    for number in range(54 * rounds):
        seed = f"public {role} {number}"
        method, path, body = fuzzed.requests(seed).public(description)
        fuzzed.send(seed, method, path, body, token)

    if role is Role.VIEWER:
        fuzzed.assert_foreign_entries_are_untouched()
    fuzzed.assert_it_still_serves()


@pytest.mark.parametrize("path", ["/execution/store/ti/{ti_id}/k", "/api/v2/dags"])
def test_forged_tokens_are_refused(fuzzed: Fuzzed, rounds: int, path: str) -> None:
    place = path.format(ti_id=fuzzed.task.scope.ti_id)
    good = fuzzed.served.token(ADMIN if path.startswith("/api") else fuzzed.task)
    refused = [*_forged(good), *(_damaged(good, number) for number in range(10 * rounds))]

    assert fuzzed.send("good", "GET", place, None, good).status in (200, 404)
    for token in refused:
        answer = fuzzed.send(token, "GET", place, None, token)

        assert answer.status in (400, 401, 403, 431), token
        assert good.encode()[-20:] not in answer.body


def _damaged(token: str, number: int) -> str:
    """Return the token with another character somewhere. Not all bits of the last one count."""
    draw = random.Random(number)
    place = draw.randrange(len(token) - 1)
    others = sorted(set("abcXYZ059-_.") - {token[place]})
    return token[:place] + draw.choice(others) + token[place + 1 :]


def _forged(token: str) -> Iterator[str]:
    """Yield tokens that the server has not signed, with the contents of one that it has."""
    head, body, signature = token.split(".")
    claims = jwt.decode(token, options={"verify_signature": False})
    kid = jwt.get_unverified_header(token)["kid"]
    for algorithm in ("none", "None", "NONE", "nOnE", "HS256", "HS384", "RS256", "", "HS256 "):
        for of_head in ({"alg": algorithm, "kid": kid}, {"alg": algorithm}):
            unsigned = f"{_part(of_head)}.{body}."
            yield from (unsigned, unsigned + signature, unsigned + _part({}))
    for key in ("", "secret", SECRET[:-1], SECRET + "s", kid):
        yield _signed(claims, kid, key)
    for algorithm in ("HS384", "HS512"):
        yield jwt.encode(claims, SECRET, algorithm, headers={"kid": kid})
    for other in ("", "x", "../../dev/null", "' OR 1=1 --", "\0", kid.upper() + "0", "k" * 3000):
        yield _signed(claims, other)
    for name, values in {
        "aud": (None, "", "other", ["other"], {}, 1),
        "exp": (None, "soon", 0, -1, time.time() - 3600, [], {}),
        "iat": (None, "then", [], {}),
        "identity": (None, "", [], {}, {"type": "child"}, {"type": "import"}, {"type": "user"}),
    }.items():
        for value in values:
            altered = {k: v for k, v in claims.items() if k != name}
            if value is not None:
                altered[name] = value
            yield _signed(altered, kid)
    yield from ("", ".", "..", "...", head, f"{head}.{body}", f"{body}.{head}.{signature}")
    yield from (f"{token}.{signature}", f"{token} {token}", token * 2, f"{head}..{signature}")
    yield from (f"{head}.{_part({})}.{signature}", "a" * 20_000, "\xff" * 30)


def _part(document: Any) -> str:
    return base64.urlsafe_b64encode(json.dumps(document).encode()).rstrip(b"=").decode()


def _signed(claims: Any, kid: str, key: str = SECRET) -> str:
    """Return any claims, signed with the server's own key unless another is given."""
    signed = f"{_part({'alg': 'HS256', 'typ': 'JWT', 'kid': kid})}.{_part(claims)}"
    digest = hmac.digest(key.encode(), signed.encode(), "sha256")
    return f"{signed}.{base64.urlsafe_b64encode(digest).rstrip(b'=').decode()}"
