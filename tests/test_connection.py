"""`holdfast.connect()`: state for scripts and notebooks."""

from __future__ import annotations

import asyncio
import getpass
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import holdfast
from holdfast import NEVER_EXPIRE, Connection
from holdfast import commands as c
from holdfast.accessor.binding import Rules
from holdfast.accessor.task_store import TaskStore
from holdfast.errors import (
    AssetInactive,
    InvalidInput,
    InvalidType,
    StaleAttempt,
    UnknownAsset,
    UnknownTaskInstance,
    VersionConflict,
)
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.run import AssetEvent, Outcome
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.sdk import Asset
from holdfast.testing.memory_store import MemoryStore

LOAD = ("sales", "monday", "load")


@pytest.fixture
def connection() -> Connection:
    return Connection(MemoryStore())


def test_without_configuration_state_is_stored_in_the_project(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with holdfast.connect() as first:
        first.task_store(*LOAD).set("job", "app_1")

    with holdfast.connect() as second:
        assert second.task_store(*LOAD).get("job") == "app_1"
    assert (tmp_path / ".holdfast" / "holdfast.db").exists()


def test_a_database_url_is_used_instead_of_the_configured_one(database_url: str) -> None:
    with holdfast.connect(database_url) as connection:
        connection.task_store(*LOAD).set("job", "app_1")

        assert connection.task_store(*LOAD).get("job") == "app_1"


async def test_a_connection_closes_in_its_event_loop(database_url: str) -> None:
    async with holdfast.connect(database_url) as connection:
        await connection.task_store(*LOAD).aset("job", "app_1")

        assert await connection.task_store(*LOAD).aget("job") == "app_1"


def test_reading_registers_nothing(connection: Connection) -> None:
    with pytest.raises(UnknownTaskInstance):
        connection.task_store(*LOAD).get("job")

    assert connection.store.execute(c.ListTasks("sales", "monday")) == ()


@pytest.mark.parametrize("remove", [lambda store: store.delete("job"), lambda store: store.clear()])
def test_removing_from_an_unknown_task_is_an_error_and_registers_nothing(
    connection: Connection, remove: Callable[[TaskStore], None]
) -> None:
    with pytest.raises(UnknownTaskInstance):
        remove(connection.task_store(*LOAD))

    assert connection.store.execute(c.ListTasks("sales", "monday")) == ()


def test_a_first_write_registers_the_run(connection: Connection) -> None:
    connection.task_store(*LOAD).set_many({"a": 1, "b": 2})

    assert connection.store.execute(c.ListTasks("sales", "monday")) == (TaskScope(*LOAD),)


def test_an_asset_has_to_be_declared_once(connection: Connection) -> None:
    with pytest.raises(UnknownAsset):
        connection.asset_store(name="orders").set("watermark", 1)

    connection.asset_store(name="orders", declare=True).set("watermark", 1)

    assert connection.asset_store(name="orders").get("watermark") == 1
    assert connection.asset_store(uri="orders").get("watermark") == 1


def test_declaring_an_asset_that_a_dag_declares_uses_it(connection: Connection) -> None:
    connection.store.execute(c.DeclareDagAssets("sales", (("orders", "s3://lake/orders"),)))

    connection.asset_store(name="orders", declare=True).set("watermark", 1)

    assert connection.asset_store(uri="s3://lake/orders").get("watermark") == 1


def test_an_asset_is_given_by_name_or_uri_only(connection: Connection) -> None:
    with pytest.raises(InvalidInput, match="its name or its URI"):
        connection.asset_store()


def test_the_writer_is_the_user(connection: Connection) -> None:
    store = connection.asset_store(name="orders", declare=True)

    store.set("watermark", 1)

    assert store.history("watermark")[0].writer == ApiWriter(getpass.getuser())


def test_the_writer_in_an_attempt_is_the_task(connection: Connection) -> None:
    with connection.task_store(*LOAD).attempt() as attempt:
        attempt.asset_store(name="orders", declare=True).set("watermark", 1)

    (step,) = connection.asset_store(name="orders").history("watermark")
    assert step.writer == TaskWriter(TaskScope(*LOAD))


def test_retention_is_counted_from_the_write(connection: Connection) -> None:
    store = connection.task_store(*LOAD)
    before = datetime.now(UTC)

    store.set("default", 1)
    store.set("week", 1, retention=timedelta(days=7))
    store.set("always", 1, retention=NEVER_EXPIRE)

    default, week, always = (store.entry(key) for key in ("default", "week", "always"))
    assert default and week and always
    assert timedelta(0) <= default.expires_at - before - timedelta(days=30) < timedelta(minutes=1)
    assert timedelta(0) <= week.expires_at - before - timedelta(days=7) < timedelta(minutes=1)
    assert always.expires_at is None


def test_a_default_of_zero_days_never_expires() -> None:
    store = Connection(MemoryStore(), Rules(default_retention=timedelta(0))).task_store(*LOAD)

    store.set("job", 1)

    entry = store.entry("job")
    assert entry and entry.expires_at is None


def test_a_large_value_is_written_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    store = Connection(MemoryStore(), Rules(max_value_bytes=10)).task_store(*LOAD)

    with caplog.at_level(logging.WARNING, logger="holdfast"):
        store.set("job", "x" * 100)

    assert store.get("job") == "x" * 100
    assert "`job` of task sales/monday/load: the value has 102 bytes" in caplog.text


def test_an_error_names_the_scope_of_its_value(connection: Connection) -> None:
    with pytest.raises(
        InvalidType, match=r"`b` of task sales/monday/load: value\['at'\] is a datetime"
    ) as caught:
        connection.task_store(*LOAD).set_many({"a": 1, "b": {"at": datetime.now(UTC)}})  # type: ignore[dict-item]

    assert isinstance(caught.value, TypeError)
    assert "isoformat" in caught.value.hint


class TestAttempt:
    def test_staged_writes_take_effect_when_the_block_succeeds(
        self, connection: Connection
    ) -> None:
        orders = connection.asset_store(name="orders", declare=True)

        with connection.task_store(*LOAD).attempt() as attempt:
            attempt.asset_store(name="orders").set("watermark", 7, on_success=True)
            assert attempt.asset_store(name="orders").get("watermark") == 7
            assert orders.get("watermark") is None

        assert orders.get("watermark") == 7

    def test_staged_writes_are_dropped_when_the_block_raises(self, connection: Connection) -> None:
        orders = connection.asset_store(name="orders", declare=True)

        with pytest.raises(ZeroDivisionError), connection.task_store(*LOAD).attempt() as attempt:
            attempt.asset_store(name="orders").set("watermark", 7, on_success=True)
            raise ZeroDivisionError

        assert orders.get("watermark") is None

    def test_attempts_are_numbered(self, connection: Connection) -> None:
        with connection.task_store(*LOAD).attempt() as first:
            assert first.number == 1
        with connection.task_store(*LOAD).attempt() as second:
            assert second.number == 2

    def test_an_attempt_that_was_superseded_may_not_write(self, connection: Connection) -> None:
        connection.asset_store(name="orders", declare=True)
        zombie = connection.task_store(*LOAD).attempt()
        with pytest.raises(StaleAttempt), zombie:
            connection.store.execute(c.StartAttempt(TaskScope(*LOAD)))
            with pytest.raises(StaleAttempt):
                zombie.task_store.set("job", 1)
            with pytest.raises(StaleAttempt):
                zombie.asset_store(name="orders").set("watermark", 1)

    def test_an_exception_in_the_block_is_not_hidden_by_its_end(
        self, connection: Connection
    ) -> None:
        with pytest.raises(ZeroDivisionError) as caught, connection.task_store(*LOAD).attempt():
            connection.store.execute(c.StartAttempt(TaskScope(*LOAD)))
            raise ZeroDivisionError

        assert "attempt 1" in caught.value.__notes__[0]

    def test_a_conflict_at_the_end_fails_the_attempt(self, connection: Connection) -> None:
        orders = connection.asset_store(name="orders", declare=True)

        with pytest.raises(VersionConflict), connection.task_store(*LOAD).attempt() as attempt:
            mine = attempt.asset_store(name="orders")
            mine.set("watermark", 7, on_success=True, if_version=0)
            mine.set("rows", 100, on_success=True)
            orders.set("watermark", 8)

        assert orders.items() == [("watermark", 8)]
        with pytest.raises(StaleAttempt):
            attempt.task_store.set("job", 1)

    def test_staging_needs_an_attempt(self, connection: Connection) -> None:
        with pytest.raises(InvalidInput, match="no attempt"):
            connection.asset_store(name="orders", declare=True).set("w", 1, on_success=True)

    def test_the_number_of_an_attempt_is_known_once_it_has_started(
        self, connection: Connection
    ) -> None:
        with pytest.raises(InvalidInput, match="has not started"):
            _ = connection.task_store(*LOAD).attempt().number

    def test_clear_on_success_clears_the_task_store_and_no_other(self) -> None:
        connection = Connection(MemoryStore(), Rules(clear_on_success=True))
        orders = connection.asset_store(name="orders", declare=True)

        with connection.task_store(*LOAD).attempt() as attempt:
            attempt.task_store.set("job", 1)
            attempt.asset_store(name="orders").set("watermark", 1)

        assert connection.task_store(*LOAD).items() == []
        assert orders.items() == [("watermark", 1)]

    def test_failure_keeps_the_task_store_despite_clear_on_success(self) -> None:
        connection = Connection(MemoryStore(), Rules(clear_on_success=True))

        with pytest.raises(ZeroDivisionError), connection.task_store(*LOAD).attempt() as attempt:
            attempt.task_store.set("job", 1)
            raise ZeroDivisionError

        assert connection.task_store(*LOAD).get("job") == 1

    def test_an_attempt_works_in_an_event_loop(self, connection: Connection) -> None:
        orders = connection.asset_store(name="orders", declare=True)

        async def work() -> None:
            async with connection.task_store(*LOAD).attempt() as attempt:
                await attempt.asset_store(name="orders").aadvance("watermark", 7, on_success=True)

        asyncio.run(work())
        assert orders.get("watermark") == 7


@pytest.fixture
def orders(database_url: str) -> Iterator[Connection]:
    """Yield a connection to a database with the asset `orders`."""
    with holdfast.connect(database_url) as connection:
        connection.asset_store(name="orders", uri="s3://orders", declare=True)
        yield connection


def events_of(connection: Connection) -> list[AssetEvent]:
    """Return the events of the asset `orders`, oldest first."""
    return list(reversed(connection.store.execute(c.ListAssetEvents(AssetScope(name="orders")))))


class TestEvents:
    def test_a_program_reports_an_event_once_for_each_key(self, orders: Connection) -> None:
        first = orders.asset_event(name="orders", extra={"rows": 7}, key="monday")
        again = orders.asset_event(uri="s3://orders", key="monday")
        second = orders.asset_event(name="orders")

        assert (first.number, first.extra, first.user) == (1, '{"rows":7}', getpass.getuser())
        assert again == first
        assert events_of(orders) == [first, second]

    @pytest.mark.parametrize(
        ("event", "error"),
        [
            ({"name": "orderz"}, UnknownAsset),
            ({}, InvalidInput),
            ({"name": "orders", "uri": "s3://orders"}, InvalidInput),
            ({"name": "orders", "extra": {"at": {1}}}, InvalidType),
            ({"name": "orders", "extra": [1]}, InvalidInput),
            ({"name": "orders", "key": 7}, InvalidType),
        ],
    )
    def test_an_invalid_event_is_refused(
        self, orders: Connection, event: dict[str, Any], error: type[Exception]
    ) -> None:
        with pytest.raises(error):
            orders.asset_event(**event)
        assert events_of(orders) == []

    def test_a_successful_attempt_adds_an_event_to_each_outlet(self, orders: Connection) -> None:
        task = orders.task_store(*LOAD)

        with task.attempt(outlets=["orders"]) as attempt:
            attempt.asset_store(name="orders").set("mark", 1, on_success=True)
            assert events_of(orders) == []

        [event] = events_of(orders)
        assert event.source == TaskScope(*LOAD)
        assert orders.asset_store(name="orders").get("mark") == 1

    def test_a_failed_attempt_adds_no_event(self, orders: Connection) -> None:
        with pytest.raises(RuntimeError), orders.task_store(*LOAD).attempt(outlets=["orders"]):
            raise RuntimeError
        assert events_of(orders) == []

    def test_a_script_that_is_repeated_after_its_success_adds_no_event(
        self, orders: Connection
    ) -> None:
        for day in ("monday", "monday", "tuesday"):
            with orders.task_store("sales", day, "load").attempt(outlets=[Asset("orders")]):
                pass

        assert [event.source and event.source.run_id for event in events_of(orders)] == [
            "monday",
            "tuesday",
        ]

    def test_a_superseded_attempt_adds_no_event(self, orders: Connection) -> None:
        task = orders.task_store(*LOAD)

        with pytest.raises(StaleAttempt), task.attempt(outlets=["orders"]):
            task.attempt().__enter__()

        assert events_of(orders) == []

    async def test_events_and_outlets_work_in_an_event_loop(
        self, orders: Connection, database_url: str
    ) -> None:
        async with holdfast.connect(database_url) as connection:
            for _ in range(2):
                await connection.aasset_event(name="orders", key="monday")
            async with connection.task_store(*LOAD).attempt(outlets=["orders", "orders"]):
                pass

        assert [event.key for event in events_of(orders)] == ["monday", TaskScope(*LOAD).ti_text]

    def test_an_unknown_or_inactive_outlet_starts_no_attempt(self, orders: Connection) -> None:
        task = orders.task_store(*LOAD)
        orders.store.execute(c.DeclareDagAssets("d", (("old", "old"),)))
        orders.store.execute(c.DeclareDagAssets("d", ()))

        with pytest.raises(UnknownAsset, match="orders"), task.attempt(outlets=["orderz"]):
            pass
        with pytest.raises(AssetInactive), task.attempt(outlets=["old"]):
            pass

        assert orders.store.execute(c.ListRuns()) == ()

    @pytest.mark.parametrize("outlets", ["orders", [7]])
    def test_outlets_that_are_no_assets_are_refused(self, orders: Connection, outlets: Any) -> None:
        with pytest.raises(InvalidType):
            orders.task_store(*LOAD).attempt(outlets=outlets)

    def test_an_outlet_that_is_deleted_meanwhile_fails_the_attempt(
        self, orders: Connection
    ) -> None:
        task = orders.task_store(*LOAD)

        with pytest.raises(UnknownAsset), task.attempt(outlets=["orders"]):
            orders.store.execute(c.DeleteAsset(AssetScope(name="orders")))

        assert orders.store.execute(c.ListAssets()) == ()
        [attempt] = orders.store.execute(c.ListAttempts(TaskScope(*LOAD)))
        assert attempt.outcome is Outcome.FAILED
