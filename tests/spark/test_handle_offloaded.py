"""Handles of stores whose values are offloaded by a worker-side backend."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

import holdfast
from holdfast import Connection
from holdfast.commands import Get
from holdfast.errors import BackendFailed, MissingDependency, NotSupported
from holdfast.model.scope import TaskScope
from holdfast.stores.offload.reference_store import entries_of

TASK = ("sales", "monday", "load")
SETTINGS = """
[workers]
state_backend = "{backend}"
[object_store]
url = "file://{directory}/objects"
threshold_bytes = 10
"""


@pytest.fixture
def connect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    opened: list[Connection] = []

    def connect(backend: str) -> Connection:
        monkeypatch.chdir(tmp_path)
        settings = SETTINGS.format(backend=backend, directory=tmp_path)
        (tmp_path / "holdfast.toml").write_text(settings)
        opened.append(holdfast.connect())
        return opened[0]

    yield connect
    opened[0].close()


@pytest.fixture
def connection(connect: Callable[[str], Connection]) -> Connection:
    return connect("holdfast.sdk.state.ObjectStoreBackend")


def in_another_process(work: Callable[[], Any], *prepared: str) -> str:
    program = ["import sys, pickle", *prepared, "print(pickle.load(sys.stdin.buffer)())"]
    ended = subprocess.run(
        [sys.executable, "-c", "\n".join(program)],
        input=cloudpickle.dumps(work),
        check=False,
        capture_output=True,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.decode()


def test_a_handle_offloads_values_as_the_task_does(connection: Connection, tmp_path: Path) -> None:
    store = connection.task_store(*TASK)
    store.set("before", "written by the task")
    handle = store.handle()

    def use() -> Any:
        handle.set("large", "x" * 100)
        handle.set("small", 1)
        with handle.batch() as batch:
            batch.set("batched", ["y" * 100])
        return handle.get("before"), [key for key, _ in handle.items()]

    said = in_another_process(use)

    assert said == "('written by the task', ['batched', 'before', 'large', 'small'])\n"
    assert store.get("large") == "x" * 100
    assert store.get("batched") == ["y" * 100]
    assert "xxx" not in str(entries_of(connection.store).execute(Get(TaskScope(*TASK), "large")))
    assert len(list(tmp_path.rglob("objects/**/*.json"))) == 3


def test_a_handle_reads_below_the_former_urls_and_nowhere_else(
    connection: Connection, tmp_path: Path
) -> None:
    connection.task_store(*TASK).set("k", "x" * 100)
    file = tmp_path / "holdfast.toml"
    changed = file.read_text().replace("/objects", "/elsewhere")
    file.write_text(changed)
    with holdfast.connect() as without:
        own = without.task_store(*TASK).handle()
        with pytest.raises(BackendFailed, match="former_urls"):
            own.get("k")
    file.write_text(f'{changed}former_urls = ["file://{tmp_path}/objects"]\n')
    with holdfast.connect() as knowing:
        own = knowing.task_store(*TASK).handle()
        assert in_another_process(lambda: own.get("k")) == "x" * 100 + "\n"


def test_the_error_of_a_handle_without_holdfast_installed_says_so(connection: Connection) -> None:
    handle = connection.task_store(*TASK).handle()

    def use() -> str:
        try:
            handle.set("large", "x" * 100)
        except MissingDependency as error:
            return error.hint
        return ""

    said = in_another_process(use, "sys.modules.update(holdfast=None, msgspec=None)")

    assert 'pip install "holdfast-state[objects]"' in said


BACKEND = """
from pathlib import Path
from holdfast.sdk.state import BaseStoreBackend

class Files(BaseStoreBackend):
    get = set = clear = delete = None

    def serialize_asset_store_to_ref(self, *, value, key, asset_ref):
        Path(f"{asset_ref}.{key}").write_text(value)
        return f"{asset_ref}.{key}"

    def deserialize_asset_store_from_ref(self, stored):
        return Path(stored).read_text()
"""


def test_only_the_task_stages_values_that_are_overwritten_in_place(
    connect: Callable[[str], Connection], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "files_backend.py").write_text(BACKEND)
    monkeypatch.syspath_prepend(tmp_path)
    connection = connect("files_backend.Files")
    connection.asset_store(name="orders", declare=True).set("watermark", "old")

    with connection.task_store(*TASK).attempt() as attempt:
        orders = attempt.asset_store(name="orders")
        orders.set("watermark", "new", on_success=True)
        assert orders.get("watermark") == "new"
        assert (tmp_path / "orders.watermark").read_text() == "old"
        with pytest.raises(NotSupported, match="cannot stage"):
            orders.handle().set("watermark", "other", on_success=True)

    assert (tmp_path / "orders.watermark").read_text() == "new"
    assert connection.asset_store(name="orders").get("watermark") == "new"
