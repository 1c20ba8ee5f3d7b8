"""`holdfast auth`: tokens and signing keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path

import msgspec
import pytest
from project import Result

from holdfast import commands as c
from holdfast.access.identity import TaskIdentity, UserIdentity, WorkerIdentity
from holdfast.connection import open_store, whoami
from holdfast.model.role import Role
from holdfast.model.run import RunKind
from holdfast.model.scope import TaskScope
from holdfast.server.tokens import Verified, open_tokens
from holdfast.settings import load
from holdfast.store import Store

SCOPE = TaskScope("etl", "r1", "load")


@pytest.fixture
def store(project: Path) -> Iterator[Store]:
    """Yield the embedded store, which has runs and attempts too."""
    with open_store(load()) as store:
        yield store


def verified(text: str) -> Verified:
    return open_tokens(load()).verify(text)


def test_a_task_token_is_for_the_attempt_that_it_starts(
    holdfast: Callable[..., Result], store: Store, task: tuple[str, ...]
) -> None:
    result = holdfast("auth", "task-token", *task)

    printed = msgspec.json.decode(result.out)
    run = store.execute(c.GetRun("etl", "r1"))
    assert result.status == 0
    assert result.out.count("\n") == 1
    assert printed["ti_id"] == str(SCOPE.ti_id)
    assert verified(printed["token"]).identity == TaskIdentity(SCOPE, 1)
    assert run.kind is RunKind.EXTERNAL
    expires_at = datetime.fromisoformat(printed["expires_at"]).timestamp()
    assert expires_at == pytest.approx(time.time() + 600, abs=30)


def test_a_task_token_is_for_the_running_attempt(
    holdfast: Callable[..., Result], store: Store, task: tuple[str, ...]
) -> None:
    store.execute(c.RegisterTask(SCOPE))
    for _ in range(3):
        store.execute(c.StartAttempt(SCOPE))

    printed = [msgspec.json.decode(holdfast("auth", "task-token", *task).out) for _ in range(2)]

    assert [one["attempt"] for one in printed] == [3, 3]


def test_after_an_ended_attempt_a_task_token_starts_the_next(
    holdfast: Callable[..., Result], store: Store, task: tuple[str, ...]
) -> None:
    first = msgspec.json.decode(holdfast("auth", "task-token", *task).out)
    writer = TaskIdentity(SCOPE, 1).writer
    store.execute(c.FinishAttempt(writer, succeeded=False))

    second = msgspec.json.decode(holdfast("auth", "task-token", *task).out)

    assert (first["attempt"], second["attempt"]) == (1, 2)


def test_a_task_token_names_its_assets_and_map_index(
    holdfast: Callable[..., Result], orders: Store, task: tuple[str, ...]
) -> None:
    orders.execute(c.DeclareAsset("customers", "s3://lake/customers"))

    result = holdfast(
        *("auth", "task-token", *task, "--map-index", "3", "--lifetime", "2h"),
        *("--asset", "orders", "--asset-uri", "s3://lake/customers"),
    )

    token = verified(msgspec.json.decode(result.out)["token"])
    assets = (("orders", "s3://lake/orders"), ("customers", "s3://lake/customers"))
    assert token.identity == TaskIdentity(TaskScope("etl", "r1", "load", 3), 1, assets)
    assert token.expires_at == pytest.approx(time.time() + 7200, abs=30)


def test_an_unknown_asset_gives_no_token_and_starts_no_attempt(
    holdfast: Callable[..., Result], orders: Store, task: tuple[str, ...]
) -> None:
    result = holdfast("auth", "task-token", *task, "--asset", "orderz")

    assert (result.status, result.out) == (1, "")
    assert "asset `orderz` is not known" in result.err
    assert orders.execute(c.ListRuns()) == ()


@pytest.mark.parametrize("lifetime", ["0", "0s", "999999999d"])
def test_a_bad_lifetime_gives_no_token_and_starts_no_attempt(
    holdfast: Callable[..., Result], store: Store, task: tuple[str, ...], lifetime: str
) -> None:
    result = holdfast("auth", "task-token", *task, "--lifetime", lifetime)

    assert (result.status, result.out) == (2, "")
    assert f"{lifetime!r} is not a duration" in result.err
    assert store.execute(c.ListRuns()) == ()


def test_the_output_is_the_user_token_alone(holdfast: Callable[..., Result]) -> None:
    mine = holdfast("auth", "user-token", "--role", "viewer")
    anns = holdfast("auth", "user-token", "--role", "admin", "--user", "ann", "--lifetime", "1d")

    assert verified(mine.out.strip()).identity == UserIdentity(whoami().user, Role.VIEWER)
    token = verified(anns.out.strip())
    assert token.identity == UserIdentity("ann", Role.ADMIN)
    assert token.expires_at == pytest.approx(time.time() + 86_400, abs=30)


def test_the_output_is_the_worker_token_alone(holdfast: Callable[..., Result]) -> None:
    result = holdfast("auth", "worker-token", "--name", "machine-7")

    assert verified(result.out.strip()).identity == WorkerIdentity("machine-7")


@pytest.mark.parametrize(
    "args",
    [
        ("user-token",),
        ("user-token", "--role", "god"),
        ("user-token", "--role", "admin", "--user", ""),
        ("user-token", "--role", "admin", "--lifetime", "0"),
        ("user-token", "--role", "admin", "--lifetime", "soon"),
        ("user-token", "--role", "admin", "--lifetime", "36501d"),
        ("worker-token", "--lifetime", "0s"),
        ("worker-token", "--name", "a\nb"),
        ("task-token", "--dag-id", "etl", "--run-id", "r1"),
        ("task-token", "--dag-id", "", "--run-id", "r1", "--task-id", "t"),
        ("rotate-key", "--overlap", "long"),
        ("rotate-key", "--overlap", "999999999d"),
    ],
)
def test_bad_usage_is_an_error_and_issues_no_token(
    holdfast: Callable[..., Result], args: tuple[str, ...]
) -> None:
    result = holdfast("auth", *args)

    assert (result.status, result.out) == (2, "")
    assert result.err.startswith("error: ")


def test_old_tokens_stay_valid_after_a_key_rotation(holdfast: Callable[..., Result]) -> None:
    old = holdfast("auth", "user-token", "--role", "viewer").out.strip()
    keys = load().home / "signing-keys.json"
    before = keys.read_bytes()

    result = holdfast("auth", "rotate-key", "--overlap", "1h")
    new = holdfast("auth", "user-token", "--role", "viewer").out.strip()

    assert (result.status, result.out) == (0, "")
    assert "for another 1h" in result.err
    assert keys.read_bytes() != before
    assert verified(old).identity == verified(new).identity
    assert old.split(".")[0] != new.split(".")[0]


def test_a_configured_key_cannot_be_rotated_by_a_command(
    holdfast: Callable[..., Result], project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST__API__SIGNING_KEY", "s" * 40)

    result = holdfast("auth", "rotate-key")

    assert result.status == 2
    assert "HOLDFAST__API__SIGNING_KEY" in result.err
    assert "ssss" not in result.err
    assert not (project / ".holdfast" / "signing-keys.json").exists()


@pytest.mark.parametrize("command", [("db", "check"), ("auth", "user-token", "--role", "viewer")])
def test_a_token_in_the_url_of_a_server_is_not_shown(holdfast, monkeypatch, command):
    monkeypatch.setenv("HOLDFAST__DATABASE__URL", "https://host/?token=secret")

    result = holdfast(*command)

    assert result.status != 0
    assert "the server https://host/?token=***" in result.err
