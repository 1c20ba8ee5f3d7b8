"""Bounds of the memory, computation and output that a request causes."""

from __future__ import annotations

import difflib
import gc
import gzip
import hashlib
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from holdfast import commands as c
from holdfast.access.identity import UserIdentity
from holdfast.errors import BackendFailed, InvalidInput, ValueTooLarge
from holdfast.model.role import Role
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.portable import report_tables
from holdfast.portable.source.predicate import parse_where
from holdfast.server.embedded import EmbeddedServer
from holdfast.server.serve import warn_without_tls
from holdfast.settings import Api, ObjectStore, Settings, load
from holdfast.stores import refusals
from holdfast.stores.backend.adapter import BackendStore
from holdfast.stores.backend.base import BaseStoreBackend
from holdfast.stores.http import HttpStore
from holdfast.stores.offload.objects import backend, objects
from holdfast.stores.offload.objects.backend import ObjectStoreBackend
from holdfast.stores.sql import SqlStore
from holdfast.stores.sql.statements import table_scans as scan_statements

TASK = TaskScope("sales", "monday", "load")


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    with SqlStore(f"sqlite:///{tmp_path / 'store.db'}") as store:
        yield store


def test_the_cache_of_scan_statements_is_bounded(store: SqlStore) -> None:
    most = scan_statements._CACHE_SIZE
    scans = [
        c.Scan(table="runs", columns=("dag_id",), tests=tests, limit=1)
        for number in range(1, most + 100)
        for tests in [tuple(_test(bit) for bit in f"{number:b}")]
    ]
    before = len(store._compiled._known)
    for scan in scans:
        store.execute(scan)
    gc.collect()

    assert 0 < len(store._compiled._known) - before <= most


def _test(bit: str) -> c.Test:
    return c.Test("dag_id" if bit == "0" else "run_id", "=", ("x",))


def test_a_where_option_has_a_limit() -> None:
    with pytest.raises(InvalidInput, match="where has 33 conditions"):
        parse_where("runs", " AND ".join(["dag_id = 'd'"] * (report_tables.MOST_TESTS + 1)))


@pytest.mark.parametrize("length", [10, 1500])
def test_an_unknown_name_is_compared_with_a_few_short_ones(
    monkeypatch: pytest.MonkeyPatch, length: int
) -> None:
    names = [f"{number:0{length}}" for number in range(1000)]
    compared: list[tuple[str, list[str]]] = []

    def noted(sought: str, known: list[str], **options: Any) -> list[str]:
        compared.append((sought, known))
        return difflib.get_close_matches(sought, known, **options)

    monkeypatch.setattr(refusals, "get_close_matches", noted)
    refusals.unknown_asset(AssetScope(name="x" * length), names)
    refusals.unknown_dag("x" * length, names)

    assert len(compared) == 2
    assert max(len(known) for _, known in compared) <= 50
    assert max(len(text) for sought, known in compared for text in (sought, *known)) <= 64


def test_a_misspelled_name_is_recognized() -> None:
    names = [*(f"table_{number}" for number in range(500)), "orders"]

    assert "orders" in refusals.unknown_asset(AssetScope(name="orderz"), names).hint


class Leaky(BaseStoreBackend):
    """Backend that fails with a password in its message."""

    def get(self, scope: StoreScope, key: str, *, session: Any = None) -> str | None:
        raise RuntimeError("cannot connect to redis://admin:SECRET@db:6379")

    def set(self, *given: Any, **options: Any) -> None:
        raise NotImplementedError

    def delete(self, *given: Any, **options: Any) -> None:
        raise NotImplementedError

    def clear(self, *given: Any, **options: Any) -> None:
        raise NotImplementedError


def test_the_exception_of_a_backend_appears_only_in_the_servers_log(
    store: SqlStore, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store.execute(c.RegisterTask(TASK))
    settings = load(tmp_path, {"HOLDFAST__API__ACCESS_LOG": "false"})
    server = EmbeddedServer(BackendStore(Leaky(), store), settings)
    token = server.tokens.issue(UserIdentity("ann", Role.VIEWER))

    with HttpStore(server.url, token) as client, pytest.raises(BackendFailed) as caught:
        client.execute(c.Get(TASK, "k"))
    server.close()

    assert caught.value.message == f"Leaky.get for {TASK} failed: RuntimeError"
    assert "SECRET" not in str(caught.value)
    assert "SECRET" in caplog.text


def test_an_object_that_decompresses_to_more_than_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(objects, "LARGEST", 2**20)
    content = b"1" * 2**22
    path = tmp_path / f"task/{hashlib.sha256(content).hexdigest()}.json.gz"
    path.parent.mkdir()
    path.write_bytes(gzip.compress(content))

    with pytest.raises(BackendFailed, match="is larger when unpacked; the limit is 1,048,576"):
        ObjectStoreBackend(ObjectStore(url=f"file://{tmp_path}")).fetch(f"file://{path}")


def test_an_object_that_is_larger_than_any_value_is_not_read(tmp_path: Path) -> None:
    kept = ObjectStoreBackend(ObjectStore(url=f"file://{tmp_path}"))
    reference = kept.reference_for(TASK, "k", b"1")
    assert reference is not None
    kept.put(reference, TASK, "k", b"1")
    os.truncate(reference.removeprefix("file://"), 2**36)

    with pytest.raises(BackendFailed, match="has 68,719,476,736 bytes; the limit is") as caught:
        kept.fetch(reference)

    assert reference in caught.value.message
    assert "max_value_bytes" in caught.value.hint


def test_a_value_over_the_limit_is_not_offloaded() -> None:
    kept = ObjectStoreBackend(ObjectStore(url="memory://limited", max_value_bytes=2**20))

    assert kept.reference_for(TASK, "k", b"1" * 2**20) is not None
    with pytest.raises(ValueTooLarge, match="1,048,577 bytes as JSON; the limit is 1,048,576"):
        kept.reference_for(TASK, "k", b"1" * (2**20 + 1))


def test_a_value_too_large_to_decompress_is_not_compressed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "LARGEST", 100)
    monkeypatch.setattr(objects, "LARGEST", 100)
    kept = ObjectStoreBackend(ObjectStore(url=f"file://{tmp_path}", compression="gzip"))
    for content, suffix in ((b"1" * 100, ".json.gz"), (b"1" * 101, ".json")):
        reference = kept.reference_for(TASK, "k", content)
        assert reference is not None
        kept.put(reference, TASK, "k", content)

        assert reference.endswith(suffix)
        assert kept.fetch(reference) == content


@pytest.mark.parametrize(
    ("host", "certificate", "warned"),
    [
        ("0.0.0.0", "", True),
        ("::", "", True),
        ("holdfast.example", "", True),
        ("0.0.0.0", "server.pem", False),
        ("127.0.0.1", "", False),
        ("::1", "", False),
        ("localhost", "", False),
    ],
)
def test_a_server_reachable_without_tls_warns(
    host: str, certificate: str, warned: bool, caplog: pytest.LogCaptureFixture
) -> None:
    api = msgspec.structs.replace(Api(), host=host, tls_certificate=certificate)

    with caplog.at_level(logging.WARNING):
        warn_without_tls(Settings(api=api))

    assert ("without TLS" in caplog.text) is warned
