"""Custom server-side backends, with the ledger in front of them."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from dict_backends import DictBackend, SelfCleaning, VersionedBackend
from servers import ServerDatabase, SqliteDatabase

from holdfast import commands as c
from holdfast.errors import BackendFailed, InvalidBackend, NotSupported, StaleAttempt
from holdfast.model.entry import ApiWriter, BackendCleanup, TaskWriter, WatcherWriter
from holdfast.model.run import Process
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.stores.backend.base import load_backend
from holdfast.stores.sql import SqlStore
from holdfast.testing import MakeStore, StoreConformance
from holdfast.testing.gaps import IF_VERSION, WITHOUT_OPTIONAL_METHODS

ANN = ApiWriter("ann")
TASK = TaskScope("sales", "monday", "load")
ORDERS = AssetScope(name="orders")


@pytest.mark.full
class TestBackendOfFourMethods(StoreConformance):
    gaps = WITHOUT_OPTIONAL_METHODS
    differs = {"test_a_pickled_store_reads_and_writes_the_same_state": "its entries are in memory"}

    @pytest.fixture
    def make_store(self, postgres_database: ServerDatabase) -> MakeStore:
        return lambda clock: DictBackend(clock).open(
            SqlStore(postgres_database.empty(), clock=clock)
        )


class TestBackendWithOptionalMethods(StoreConformance):
    gaps = WITHOUT_OPTIONAL_METHODS - {c.GetEntry, c.List, c.SetMany, c.Advance, IF_VERSION}
    differs = {"test_a_pickled_store_reads_and_writes_the_same_state": "its entries are in memory"}

    @pytest.fixture
    def make_store(self, sqlite_database: SqliteDatabase) -> MakeStore:
        return lambda clock: VersionedBackend(clock).open(
            SqlStore(sqlite_database.empty(), clock=clock)
        )


@pytest.fixture
def ledger(tmp_path: Path) -> SqlStore:
    store = SqlStore(f"sqlite:///{tmp_path}/ledger.db")
    store.execute(c.RegisterTask(TASK))
    store.execute(c.DeclareAsset("orders"))
    return store


def test_the_backend_holds_the_values_and_the_database_does_not(ledger: SqlStore) -> None:
    backend = DictBackend()

    backend.open(ledger).execute(c.Set(TASK, "job", '"app_1"', ANN))

    assert backend.rows == {(TASK, "job"): ('"app_1"', None)}
    assert ledger.execute(c.Get(TASK, "job")) is None


def test_an_asset_reaches_the_backend_with_its_id(ledger: SqlStore) -> None:
    backend = DictBackend()

    backend.open(ledger).execute(c.Set(AssetScope(uri="orders"), "watermark", "1", ANN))

    [(scope, _)] = backend.rows
    assert scope == AssetScope(asset_id=1, name="orders", uri="orders")


@pytest.mark.parametrize(
    "command",
    [
        c.List(TASK),
        c.GetEntry(TASK, "job"),
        c.SetMany(TASK, (("job", "1"),), ANN),
        c.Set(TASK, "job", "1", ANN, if_version=0),
        c.Advance(AssetScope(name="orders"), "watermark", "1", ANN),
        c.History(AssetScope(name="orders"), "watermark"),
        c.Rewind(AssetScope(name="orders"), "watermark", c.ToVersion(1), ANN),
        c.CountExpired(c.datetime.max),
    ],
    ids=lambda command: type(command).__name__,
)
def test_the_error_for_an_unsupported_command_names_the_backend(
    ledger: SqlStore, command: c.Command[Any]
) -> None:
    with pytest.raises(NotSupported, match="DictBackend cannot"):
        DictBackend().open(ledger).execute(command)


def test_a_stale_attempt_never_reaches_the_backend(ledger: SqlStore) -> None:
    backend = DictBackend()
    store = backend.open(ledger)
    zombie = TaskWriter(TASK, store.execute(c.StartAttempt(TASK)))
    store.execute(c.StartAttempt(TASK))

    with pytest.raises(StaleAttempt):
        store.execute(c.Set(TASK, "job", "1", zombie))

    assert not backend.rows


def test_a_second_staged_key_is_refused_at_once(ledger: SqlStore) -> None:
    store = DictBackend().open(ledger)
    attempt = TaskWriter(TASK, store.execute(c.StartAttempt(TASK)))
    orders = AssetScope(name="orders")
    store.execute(c.Set(orders, "watermark", "1", attempt, on_success=True))

    with pytest.raises(NotSupported, match="several staged writes"):
        store.execute(c.Set(orders, "rows", "1", attempt, on_success=True))


class Broken(DictBackend):
    def get(self, scope: Any, key: str, *, session: Any = None) -> Any:
        return 7

    def set(self, scope: Any, key: str, value: str, **options: Any) -> None:
        raise OSError("bucket on fire")


def test_a_condition_that_the_backend_cannot_check_is_refused_before_any_write(
    ledger: SqlStore,
) -> None:
    backend = DictBackend()
    store = backend.open(ledger)
    process = Process("host", 1, "now")
    watch = store.execute(
        c.StartWatch(asset=ORDERS, watcher="w", process=process, lease=timedelta(minutes=1))
    )
    writes = (
        c.Set(ORDERS, "a", "1", WatcherWriter()),
        c.Set(ORDERS, "b", "1", WatcherWriter(), if_version=0),
    )

    with pytest.raises(NotSupported, match="DictBackend cannot compare versions"):
        store.execute(c.Emit(watch, writes))

    assert store.execute(c.Get(ORDERS, "a")) is None


def test_an_exception_of_a_backend_is_reported_as_its_failure(ledger: SqlStore) -> None:
    with pytest.raises(BackendFailed, match=r"Broken\.set for task sales/monday/load.*on fire"):
        Broken().open(ledger).execute(c.Set(TASK, "job", "1", ANN))


def test_a_backend_that_returns_no_text_is_an_error(ledger: SqlStore) -> None:
    with pytest.raises(BackendFailed, match="returned a int for `job`"):
        Broken().open(ledger).execute(c.Get(TASK, "job"))


def test_a_backend_with_its_own_cleanup_has_it_called(ledger: SqlStore) -> None:
    backend = SelfCleaning()
    store = backend.open(ledger)
    past = backend.clock() - timedelta(seconds=1)
    store.execute(c.Set(TASK, "old", "1", ANN, expires_at=past))

    assert store.execute(c.CleanUpBackend(dry_run=True)).called
    assert backend.rows
    assert store.execute(c.CleanUpBackend()) == BackendCleanup("SelfCleaning", called=True)
    assert not backend.rows


def test_a_backend_without_cleanup_is_skipped_by_name(ledger: SqlStore) -> None:
    answer = DictBackend().open(ledger).execute(c.CleanUpBackend())
    assert DictBackend().open(ledger).execute(c.CleanUpBackend(dry_run=True)) == answer

    assert answer == BackendCleanup("DictBackend", called=False)


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("nowhere.Backend", "cannot be imported"),
        ("dict_backends.Missing", "cannot be imported"),
        ("dict_backends", "cannot be imported"),
        ("dict_backends.wall_clock", "not a subclass of BaseStoreBackend"),
        ("pathlib.Path", "not a subclass of BaseStoreBackend"),
        ("holdfast.stores.backend.base.BaseStoreBackend", "cannot be created"),
    ],
)
def test_a_path_to_something_else_than_a_backend_is_a_type_error(path: str, reason: str) -> None:
    with pytest.raises(InvalidBackend, match=reason) as caught:
        load_backend(path)

    assert isinstance(caught.value, TypeError)


class SlowBackend(DictBackend):
    """Backend whose async `get` takes a while."""

    pause = 0.5

    async def aget(self, scope: StoreScope, key: str, *, session: Any = None) -> str | None:
        await asyncio.sleep(self.pause)
        return self.get(scope, key)


async def test_a_connection_that_a_timeout_has_cut_is_not_used_again(
    postgres_database: ServerDatabase,
) -> None:
    backend = SlowBackend()
    ledger = SqlStore(postgres_database.empty(), answer_timeout=timedelta(seconds=0.2))
    store = backend.open(ledger)
    await store.aexecute(c.RegisterTask(TASK))
    await store.aexecute(c.Set(TASK, "key", "1", ANN))

    await store.aexecute(c.Get(TASK, "key"))
    backend.pause = 0

    assert await store.aexecute(c.Get(TASK, "key")) == "1"
    await store.aclose()
