"""Fixtures for tests on each kind of storage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest
from objectserver import ObjectServer, object_server

from holdfast.settings import ObjectStore
from holdfast.stores.offload.objects.backend import ObjectStoreBackend


@pytest.fixture(scope="session")
def s3_process() -> Iterator[ObjectServer]:
    with object_server() as server:
        yield server


@pytest.fixture
def s3(s3_process: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> ObjectServer:
    """Return an S3 server, with its credentials in the environment."""
    for name, value in s3_process.environment.items():
        monkeypatch.setenv(name, value)
    return s3_process


@pytest.fixture(params=["memory", "file", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of empty storage, once for each kind."""
    match request.param:
        case "memory":
            return f"memory://{uuid4().hex}"
        case "file":
            return f"file://{tmp_path}/objects"
    server: ObjectServer = request.getfixturevalue("s3")
    return f"{server.make_bucket()}/holdfast"


@pytest.fixture
def backend(url: str) -> ObjectStoreBackend:
    return ObjectStoreBackend(ObjectStore(url=url))
