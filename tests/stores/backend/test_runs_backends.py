"""Runs with a custom backend, which holds their entries."""

from __future__ import annotations

from pathlib import Path

import pytest
from dict_backends import DictBackend

from holdfast import commands as c
from holdfast.errors import NotSupported
from holdfast.model.entry import WatcherWriter
from holdfast.model.run import Ending, TaskState
from holdfast.store import Store
from holdfast.stores.sql import SqlStore
from holdfast.stores.sql.operations import OPERATIONS
from holdfast.testing.memory_store import MemoryStore
from holdfast.testing.runs.samples import (
    ANN,
    FIRST,
    LOAD,
    MINUTE,
    ORDERS,
    ORDERS_CHANGED,
    REPORT,
    RUN,
    SUCCESS,
    begin,
    finish,
    start,
    task,
)


@pytest.fixture
def backend() -> DictBackend:
    return DictBackend()


@pytest.fixture
def store(backend: DictBackend, tmp_path: Path) -> Store:
    return backend.open(SqlStore(f"sqlite:///{tmp_path}/ledger.db"))


def test_every_command_about_runs_is_forwarded(store: Store) -> None:
    about_runs = {kind for kind in OPERATIONS if not MemoryStore().supports(kind)}

    assert {c.CreateRun, c.MarkTask, c.SaveFile, c.Emit} <= about_runs
    by_expiry = {c.ListPrunableRuns, c.PruneRuns}  # the backend alone knows what has expired
    assert {kind for kind in about_runs if not store.supports(kind)} == by_expiry


def test_success_applies_staged_writes_and_clears_in_the_backend(
    store: Store, backend: DictBackend
) -> None:
    begin(store)
    store.execute(c.DeclareAsset("orders", "s3://orders"))
    writer = start(store)
    store.execute(c.Set(LOAD, "page", "7", writer))
    store.execute(c.Set(ORDERS, "mark", "1", writer, on_success=True))
    ending = Ending(
        outcome=SUCCESS.outcome, state=SUCCESS.state, result="[]", events=(ORDERS_CHANGED,)
    )

    store.execute(c.FinishAttempt(writer, True, clear=True, ending=ending))

    assert [key for _, key in backend.rows] == ["mark"]
    assert len(store.execute(c.ListAssetEvents(ORDERS))) == 1
    assert store.execute(c.GetResults(*RUN, "load")) == ((-1, "[]"),)


def test_clearing_a_succeeded_task_clears_its_entries_in_the_backend(
    store: Store, backend: DictBackend
) -> None:
    begin(store)
    for scope in (LOAD, REPORT):
        store.execute(c.Set(scope, "page", "7", ANN))
    finish(store, start(store))

    store.execute(
        c.ClearTasks(
            dag_id="sales", run_id="monday", tasks=(("load", None), ("report", None)), writer=ANN
        )
    )

    assert [scope for scope, _ in backend.rows] == [REPORT]


def test_marking_success_clears_the_entries_in_the_backend(
    store: Store, backend: DictBackend
) -> None:
    begin(store)
    store.execute(c.Set(LOAD, "page", "7", ANN))

    store.execute(c.MarkTask(scope=LOAD, state=TaskState.SUCCESS, writer=ANN, clear=True))

    assert not backend.rows
    assert task(store).state is TaskState.SUCCESS


def test_a_watcher_writes_to_the_backend(store: Store, backend: DictBackend) -> None:
    store.execute(c.DeclareAsset("orders", "s3://orders"))
    watch = store.execute(c.StartWatch(asset=ORDERS, watcher="files", process=FIRST, lease=MINUTE))
    me = WatcherWriter()

    store.execute(c.Emit(watch, (c.Set(ORDERS, "cursor", "1", me),), ORDERS_CHANGED))
    with pytest.raises(NotSupported, match="DictBackend cannot execute `Advance`"):
        writes = (c.Set(ORDERS, "cursor", "2", me), c.Advance(ORDERS, "newest", "1", me))
        store.execute(c.Emit(watch, writes, ORDERS_CHANGED))

    assert [(key, value) for (_, key), (value, _) in backend.rows.items()] == [("cursor", "1")]
    assert len(store.execute(c.ListAssetEvents(ORDERS))) == 1


def test_another_item_clears_the_entries_in_the_backend(store: Store, backend: DictBackend) -> None:
    begin(store)
    writer = start(store)
    store.execute(c.TakeItem(writer, "1" * 64))
    store.execute(c.Set(LOAD, "page", "7", writer))

    assert store.execute(c.TakeItem(writer, "2" * 64))

    assert not backend.rows
