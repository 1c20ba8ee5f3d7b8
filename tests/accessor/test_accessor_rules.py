"""Accessors: retention, validation and the commands that they send."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast import commands as c
from holdfast.accessor.asset_store import AssetStore
from holdfast.accessor.binding import Rules
from holdfast.accessor.task_store import ExternalTaskStore, TaskStore
from holdfast.errors import InvalidInput, UnknownAsset, UnknownTaskInstance, UnreadableValue
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.testing.memory_store import MemoryStore

TASK = TaskScope("sales", "monday", "load")
ORDERS = AssetScope(name="orders")
ANN = ApiWriter("ann")


class RecordingStore(MemoryStore):
    """Store that records the commands, and whether they were sync or async."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[tuple[str, str]] = []

    def execute(self, command: Any) -> Any:
        self.asked.append(("sync", type(command).__name__))
        return super().execute(command)

    async def aexecute(self, command: Any) -> Any:
        self.asked.append(("async", type(command).__name__))
        return super().execute(command)


@pytest.fixture
def store() -> RecordingStore:
    store = RecordingStore()
    store.execute(c.RegisterTask(TASK))
    store.execute(c.DeclareAsset("orders"))
    store.asked.clear()
    return store


@pytest.fixture
def task_store(store: RecordingStore) -> TaskStore:
    return TaskStore(store, TASK, TaskWriter(TASK))


@pytest.fixture
def asset_store(store: RecordingStore) -> AssetStore:
    return AssetStore(store, ORDERS, ANN)


def test_entries_expire_after_thirty_days_by_default(
    task_store: TaskStore,
) -> None:
    before = datetime.now(UTC)
    task_store.set("k", 1)
    entry = task_store.entry("k")

    assert entry is not None
    assert entry.expires_at is not None
    assert entry.expires_at - before >= timedelta(days=30)
    assert entry.expires_at - before < timedelta(days=30, minutes=1)


def test_each_operation_is_one_command(
    store: RecordingStore, task_store: TaskStore, asset_store: AssetStore
) -> None:
    task_store.set("k", 1)
    task_store.set_many({"a": 1, "b": 2})
    task_store.get("k")
    task_store.entry("k")
    task_store.keys()
    task_store.items()
    task_store.delete("k")
    task_store.clear()
    asset_store.advance("k", 1)
    asset_store.history("k")
    asset_store.rewind("k", version=1)

    assert store.asked == [
        ("sync", name)
        for name in (
            *("Set", "SetMany", "Get", "GetEntry", "List", "List", "Delete", "Clear"),
            *("Advance", "History", "Rewind"),
        )
    ]


async def test_async_methods_never_use_the_sync_entry_point(
    store: RecordingStore, task_store: TaskStore, asset_store: AssetStore
) -> None:
    await task_store.aset("k", 1)
    await task_store.aset_many({"a": 1, "b": 2})
    assert await task_store.aget("k") == 1
    assert await task_store.aentry("k") is not None
    assert await task_store.akeys() == ["a", "b", "k"]
    assert await task_store.aitems() == [("a", 1), ("b", 2), ("k", 1)]
    await task_store.adelete("k")
    await task_store.aclear()
    await asset_store.aset("k", 1)
    await asset_store.aset_many({"a": 1})
    assert await asset_store.aadvance("k", 2) == 2
    assert [step.value for step in await asset_store.ahistory("k")] == [2, 1]
    await asset_store.arewind("k", version=1)
    await asset_store.aclear()

    assert {colour for colour, _ in store.asked} == {"async"}


def test_bad_input_is_refused_without_a_command_to_the_store(
    store: RecordingStore, task_store: TaskStore, asset_store: AssetStore
) -> None:
    refused = [
        lambda: task_store.set("", 1),
        lambda: task_store.set("k", None),
        lambda: task_store.set("k", 1, retention=timedelta(0)),
        lambda: task_store.set("k", 1, if_version=-1),
        lambda: task_store.get(""),
        lambda: asset_store.set("k", 1, on_success=True),
        lambda: asset_store.rewind("k"),
    ]

    for call in refused:
        with pytest.raises(InvalidInput):
            call()

    assert store.asked == []


def test_a_value_over_the_limit_is_written_with_a_warning_that_names_scope_and_key(
    store: RecordingStore, caplog: pytest.LogCaptureFixture
) -> None:
    rules = Rules(max_value_bytes=10)

    with caplog.at_level(logging.WARNING, logger="holdfast"):
        TaskStore(store, TASK, TaskWriter(TASK), rules).set_many({"ok": 1, "big": "x" * 20})
        AssetStore(store, ORDERS, ANN, rules).set("big", "x" * 20)

    assert [record.getMessage().split(":")[0] for record in caplog.records] == [
        "`big` of task sales/monday/load",
        "`big` of asset `orders`",
    ]
    for told in ("22 bytes", "max_value_storage_bytes (10)", "[workers] state_backend"):
        assert told in caplog.records[0].getMessage()
    assert store.execute(c.Get(TASK, "big")) == '"' + "x" * 20 + '"'


def test_an_external_task_is_registered_by_its_first_write(store: RecordingStore) -> None:
    scope = TaskScope("cron", "today", "load")
    external = ExternalTaskStore(store, scope, TaskWriter(scope))

    external.set("k", 1)
    external.set("k", 2)

    assert external.get("k") == 2
    assert [name for _, name in store.asked] == ["Set", "RegisterTask", "Set", "Set", "Get"]


async def test_an_external_task_is_registered_by_its_first_async_write(
    store: RecordingStore,
) -> None:
    scope = TaskScope("cron", "today", "load")
    external = ExternalTaskStore(store, scope, TaskWriter(scope))

    await external.aset_many({"k": 1})

    assert await external.aget("k") == 1


def test_reading_an_external_task_registers_nothing(store: RecordingStore) -> None:
    scope = TaskScope("cron", "today", "load")
    external = ExternalTaskStore(store, scope, TaskWriter(scope))

    for read in (lambda: external.get("k"), lambda: external.entry("k"), external.keys):
        with pytest.raises(UnknownTaskInstance):
            read()

    assert store.execute(c.ListTasks("cron", "today")) == ()


def test_a_task_of_the_runner_is_never_registered_by_writing(store: RecordingStore) -> None:
    scope = TaskScope("sales", "tuesday", "load")

    with pytest.raises(UnknownTaskInstance):
        TaskStore(store, scope, TaskWriter(scope)).set("k", 1)


def test_an_unknown_asset_is_not_declared_by_writing(store: RecordingStore) -> None:
    with pytest.raises(UnknownAsset, match="orderz"):
        AssetStore(store, AssetScope(name="orderz"), ANN).set("k", 1)


def test_the_repr_of_an_accessor_names_its_scope(
    task_store: TaskStore, asset_store: AssetStore
) -> None:
    assert repr(task_store) == "<TaskStore of task sales/monday/load>"
    assert repr(asset_store) == "<AssetStore of asset `orders`>"


NOT_JSON = ["app_17", "", '{"a":', "NaN", '{"__holdfast_value__":', "[" * 5000]


@pytest.mark.parametrize("text", NOT_JSON, ids=lambda text: text[:12])
def test_text_that_is_not_json_is_an_error_that_names_scope_and_key(
    store: RecordingStore, task_store: TaskStore, asset_store: AssetStore, text: str
) -> None:
    for scope in (TASK, ORDERS):
        store.execute(c.Set(scope, "k", text, ANN))
    looks: dict[str, list[Any]] = {
        "task sales/monday/load": [task_store.get, task_store.entry],
        "asset `orders`": [asset_store.get, asset_store.entry, asset_store.history],
    }

    for where, calls in looks.items():
        for look in calls:
            with pytest.raises(
                UnreadableValue, match=f"`k` of {where} holds text that is not JSON"
            ):
                look("k")
    for accessor in (task_store, asset_store):
        with pytest.raises(UnreadableValue, match="`k` of .* holds text that is not JSON"):
            accessor.items()
    with pytest.raises(UnreadableValue, match="`k` of .* holds text that is not JSON"):
        asset_store.advance("k", 1)


def test_text_that_is_not_json_can_be_overwritten(
    store: RecordingStore, task_store: TaskStore
) -> None:
    store.execute(c.Set(TASK, "k", "app_17", ANN))

    task_store.set("k", 1)

    assert task_store.get("k") == 1
