"""Default backend through its eight methods, with and without a session of the caller."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from dict_backends import DictBackend
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session

from holdfast import commands as c
from holdfast.errors import InvalidBackend, UnknownTaskInstance
from holdfast.model.entry import ApiWriter
from holdfast.sdk.state import AssetScope, MetastoreStateBackend, TaskScope
from holdfast.stores.sql import SqlStore
from holdfast.stores.sql.dialects import parse_url

TASK = TaskScope("sales", "monday", "load")
ORDERS = AssetScope(name="orders")


@pytest.fixture
def store(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlStore]:
    """Yield the configured database, with a task and an asset in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOLDFAST__DATABASE__URL", database_url)
    with SqlStore(database_url) as store:
        store.execute(c.RegisterTask(TASK))
        store.execute(c.DeclareAsset("orders"))
        yield store


@pytest.fixture
def backend() -> Iterator[MetastoreStateBackend]:
    backend = MetastoreStateBackend()
    yield backend
    backend._store.close()


@pytest.fixture
def session(database_url: str) -> Iterator[Session]:
    engine = sa.create_engine(parse_url(database_url)[0])
    with Session(engine) as session:
        yield session
    engine.dispose()


@pytest.mark.parametrize("scope", [TASK, ORDERS], ids=["task", "asset"])
def test_the_four_methods_work_on_the_configured_database(
    store: SqlStore, backend: MetastoreStateBackend, scope: TaskScope | AssetScope
) -> None:
    backend.set(scope, "a", '{"x":  1}')
    backend.set(scope, "b", "2")
    assert backend.get(scope, "a") == '{"x":  1}'

    backend.delete(scope, "a")
    assert backend.get(scope, "a") is None

    backend.clear(scope)
    assert backend.get(scope, "b") is None


async def test_the_async_methods_work_too(store: SqlStore, backend: MetastoreStateBackend) -> None:
    await backend.aset(TASK, "a", "1")
    assert await backend.aget(TASK, "a") == "1"
    await backend.adelete(TASK, "a")
    assert await backend.aget(TASK, "a") is None
    await backend.aclear(TASK)
    await backend._store.aclose()


def test_an_expired_entry_is_absent(store: SqlStore, backend: MetastoreStateBackend) -> None:
    backend.set(TASK, "a", "1", expires_at=datetime.now(UTC) - timedelta(seconds=1))

    assert backend.get(TASK, "a") is None


def test_cleanup_removes_expired_entries(store: SqlStore, backend: MetastoreStateBackend) -> None:
    backend.set(TASK, "a", "1", expires_at=datetime.now(UTC) - timedelta(seconds=1))

    backend.cleanup()

    assert store.execute(c.CountExpired(datetime.now(UTC))) == 0


@pytest.mark.parametrize(("batch_size", "limits"), [(0, [0]), (2, [2, 2, 2, 2, 2])])
def test_cleanup_uses_the_configured_batch_size(
    store: SqlStore,
    backend: MetastoreStateBackend,
    monkeypatch: pytest.MonkeyPatch,
    batch_size: int,
    limits: list[int],
) -> None:
    monkeypatch.setenv("HOLDFAST__STATE_STORE__STATE_CLEANUP_BATCH_SIZE", str(batch_size))
    for number in range(5):
        past = datetime.now(UTC) - timedelta(seconds=1)
        backend.set(TASK, f"k{number}", "1", expires_at=past)
    asked: list[c.DeleteExpired] = []
    execute = backend._store.execute

    def note(command: c.Command[Any]) -> Any:
        if isinstance(command, c.DeleteExpired):
            asked.append(command)
        return execute(command)

    monkeypatch.setattr(backend._store, "execute", note)

    backend.cleanup()

    assert [command.limit for command in asked] == limits
    assert store.execute(c.CountExpired(datetime.now(UTC))) == 0


def test_the_settings_of_the_database_apply(
    store: SqlStore, backend: MetastoreStateBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST__CORE__RETRY_WINDOW", "7s")
    monkeypatch.setenv("HOLDFAST__DATABASE__MAX_CONNECTIONS", "3")
    monkeypatch.setenv("HOLDFAST__STATE_STORE__ASSET_HISTORY_LIMIT", "2")

    options = backend._store._options  # type: ignore[attr-defined]

    assert options["retry_window"] == timedelta(seconds=7)
    assert (options["max_connections"], options["history_limit"]) == (3, 2)


def test_an_unknown_task_is_an_error(store: SqlStore, backend: MetastoreStateBackend) -> None:
    with pytest.raises(UnknownTaskInstance):
        backend.set(TaskScope("sales", "monday", "laod"), "a", "1")


def test_a_write_in_a_session_is_part_of_its_transaction(
    store: SqlStore, backend: MetastoreStateBackend, session: Session
) -> None:
    backend.set(TASK, "a", "1", session=session)
    backend.set(ORDERS, "a", "1", session=session)
    assert backend.get(TASK, "a", session=session) == "1"

    session.rollback()
    assert store.execute(c.Get(TASK, "a")) is None
    assert store.execute(c.Get(ORDERS, "a")) is None

    backend.set(TASK, "a", "2", session=session)
    backend.set(ORDERS, "a", "2", session=session)
    session.commit()
    assert store.execute(c.Get(TASK, "a")) == "2"
    assert [step.value for step in store.execute(c.History(ORDERS, "a"))] == ["2"]


def test_delete_and_clear_join_the_session(
    store: SqlStore, backend: MetastoreStateBackend, session: Session
) -> None:
    backend.set(TASK, "a", "1")
    backend.set(TASK, "b", "1")

    backend.delete(TASK, "a", session=session)
    backend.clear(TASK, session=session)
    session.rollback()

    assert store.execute(c.List(TASK)).total == 2


@pytest.fixture
async def async_session(postgres_database: object) -> AsyncIterator[AsyncSession]:
    url = postgres_database.empty()  # type: ignore[attr-defined]
    engine = create_async_engine(parse_url(url)[0])
    async with AsyncSession(engine) as session:
        yield session
    await engine.dispose()


async def test_reads_and_writes_join_an_async_session(async_session: AsyncSession) -> None:
    bind = async_session.bind
    assert bind is not None
    url = bind.url.render_as_string(hide_password=False)
    with SqlStore(url) as store:
        store.execute(c.RegisterTask(TASK))
        backend = MetastoreStateBackend()

        await backend.aset(TASK, "a", "1", session=async_session)
        assert await backend.aget(TASK, "a", session=async_session) == "1"
        assert store.execute(c.Get(TASK, "a")) is None
        await async_session.commit()

        assert store.execute(c.Get(TASK, "a")) == "1"


def test_the_default_backend_cannot_be_changed_by_inheritance() -> None:
    with pytest.raises(InvalidBackend, match="derive from BaseStoreBackend|is derived from"):

        class Loud(MetastoreStateBackend):
            pass


class Delegating(DictBackend):
    def set(self, scope: object, key: str, value: str, **options: object) -> None:
        MetastoreStateBackend().set(scope, key, value)  # type: ignore[arg-type]


def test_a_backend_that_would_wait_for_its_own_lock_is_an_error(store: SqlStore) -> None:
    with pytest.raises(InvalidBackend, match="would wait for a lock"):
        Delegating().open(store).execute(c.Set(TASK, "a", "1", ApiWriter("ann")))
