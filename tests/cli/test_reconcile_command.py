"""`holdfast state-store reconcile`: checks before Spark is started."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

COMMAND = ("state-store", "reconcile")
OBJECTS = {"HOLDFAST__WORKERS__STATE_BACKEND": "holdfast.sdk.state.ObjectStoreBackend"}


@pytest.fixture
def offloading(project: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Return the URL of the configured workers' storage."""
    url = f"file://{project}/objects"
    for name, value in {**OBJECTS, "HOLDFAST__OBJECT_STORE__URL": url}.items():
        monkeypatch.setenv(name, value)
    return url


def test_reconcile_without_a_worker_side_backend_is_an_error(
    holdfast: Callable[..., Any],
) -> None:
    result = holdfast(*COMMAND)

    assert result.status == 2
    assert "[workers] state_backend is not set" in result.err


@pytest.mark.full
@pytest.mark.parametrize(
    ("options", "status", "told"),
    [
        (["--dag-id", "etl"], 2, "--run-id, --task-id missing"),
        (["--asset", "a", "--dag-id", "d"], 2, "both a task and an asset"),
        (["--asset", "a", "--asset-uri", "u"], 2, "give one of them"),
        (["--asset", "orderz"], 1, "asset `orderz` is not known"),
        (["--dag-id", "d", "--run-id", "r", "--task-id", "t"], 1, "task d/r/t is not known"),
    ],
)
def test_an_ambiguous_or_unknown_scope_is_an_error_before_spark_is_started(
    options: list[str],
    status: int,
    told: str,
    offloading: str,
    program: Callable[..., Any],
) -> None:
    result = program(*COMMAND, *options)

    assert result.status == status
    assert told in result.err


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        (
            {"WORKERS__STATE_BACKEND": "holdfast.stores.backend.metastore.MetastoreStateBackend"},
            "list its objects",
        ),
        ({"OBJECT_STORE__URL": "memory://here"}, "in the memory of each worker"),
        ({"SPARK__MASTER": "spark://cluster:7077"}, "--report s3a://"),
    ],
)
def test_a_backend_that_cannot_be_reconciled_is_an_error(
    settings: dict[str, str],
    told: str,
    offloading: str,
    holdfast: Callable[..., Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(f"HOLDFAST__{name}", value)

    result = holdfast(*COMMAND)

    assert result.status > 0
    assert told in result.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--grace", "soon"], "'--grace': 'soon' is not a duration"),
        (["--grace", "999999999d"], "'--grace': '999999999d' is not a duration"),
        (["--delete"], "stdin is not a terminal"),
        (["--report", "."], "--report . is not empty"),
    ],
)
def test_bad_options_are_refused(
    options: list[str], told: str, offloading: str, project: Path, holdfast: Callable[..., Any]
) -> None:
    (project / "file").touch()

    result = holdfast(*COMMAND, *options)

    assert result.status == 2
    assert told in result.err
