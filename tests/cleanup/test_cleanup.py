"""Cleanup of expired entries, orphans and inactive clients."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from threading import Event
from typing import Any

import pytest

from holdfast import commands as c
from holdfast.cleanup.orphans import OrphanPlan
from holdfast.cleanup.periodic import PeriodicCleanup
from holdfast.cleanup.plan import CleanupPlan
from holdfast.cleanup.requests import forget_requests_periodically
from holdfast.commands import Once, RequestId
from holdfast.errors import AssetInactive, BackendFailed, StoreUnavailable
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.server.serve import build
from holdfast.settings import StateStore, load
from holdfast.testing.memory_store import MemoryStore

ANN = ApiWriter("ann")
LOAD = TaskScope("etl", "r1", "load")
ORDERS = AssetScope(name="orders")


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, tzinfo=UTC)

    def __call__(self) -> datetime:
        return self.now


class WatchedStore(MemoryStore):
    """Store that records each command; it may lock rows against deletions that skip locked rows."""

    def __init__(self, clock: Clock, held: int = 0) -> None:
        super().__init__(clock=clock)
        self.held = held
        self.commands: list[c.Command[Any]] = []
        self.forgot = Event()

    def execute(self, command: c.Command[Any]) -> Any:
        self.commands.append(command)
        if isinstance(command, c.DeleteExpired) and command.skip_held:
            free = super().execute(c.CountExpired(command.cutoff)) - self.held
            if not free:
                return 0
            limit = min(command.limit, free)
            return super().execute(c.DeleteExpired(command.cutoff, limit))
        answer = super().execute(command)
        if isinstance(command, c.ForgetRequests):
            self.forgot.set()
        return answer


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def settings(tmp_path):
    return load(tmp_path, {})


def filled(clock: Clock, *, expired: int, held: int = 0) -> WatchedStore:
    store = WatchedStore(clock, held)
    store.execute(c.RegisterTask(LOAD))
    for number in range(expired):
        at = clock.now - timedelta(seconds=expired - number)
        store.execute(c.Set(LOAD, f"old {number}", "1", ANN, at))
    store.execute(c.Set(LOAD, "alive", "1", ANN, clock.now + timedelta(days=1)))
    store.commands.clear()
    return store


def test_the_preview_streams_every_row_in_order_of_expiry(clock, monkeypatch):
    monkeypatch.setattr("holdfast.cleanup.plan.PAGE", 2)
    store = filled(clock, expired=5)
    plan = CleanupPlan.now(store)

    assert [row.key for row in plan.rows()] == [f"old {number}" for number in range(5)]
    assert plan.count() == 5
    pages = [command for command in store.commands if isinstance(command, c.ListExpired)]
    assert {page.limit for page in pages} == {2}


def test_preview_and_run_use_the_cut_off_of_the_plan(clock):
    store = filled(clock, expired=2)
    plan = CleanupPlan.now(store)

    clock.now += timedelta(days=2)

    assert plan.count() == 2
    assert sum(plan.delete()) == 2
    assert CleanupPlan.now(store).count() == 1


def test_without_a_batch_size_cleanup_is_one_statement(clock):
    store = filled(clock, expired=5)
    plan = CleanupPlan.now(store)

    assert list(plan.delete()) == [5]
    assert store.commands[-1] == c.DeleteExpired(plan.cutoff)


def test_batches_continue_until_no_row_is_left(clock):
    store = filled(clock, expired=5)

    assert list(CleanupPlan.now(store).delete(2)) == [2, 2, 1]
    assert CleanupPlan.now(store).count() == 0


def test_rows_locked_by_a_writer_are_retried_at_the_end(clock):
    store = filled(clock, expired=5, held=2)
    plan = CleanupPlan.now(store)

    assert list(plan.delete(2)) == [2, 1, 2]
    deletions = [command for command in store.commands if isinstance(command, c.DeleteExpired)]
    assert [deletion.skip_held for deletion in deletions] == [True, True, True, False, False]
    assert plan.count() == 0


def test_a_row_that_was_rewritten_in_between_is_kept(clock):
    store = filled(clock, expired=3)
    batches = CleanupPlan.now(store).delete(1)
    next(batches)

    store.execute(c.Set(LOAD, "old 2", "2", ANN, clock.now + timedelta(days=1)))

    assert sum(batches) == 1
    assert store.execute(c.Get(LOAD, "old 2")) == "2"


@pytest.mark.parametrize(("batch_size", "limit"), [(0, 1000), (2, 2)])
def test_rows_are_taken_in_batches_and_returned(clock, batch_size, limit):
    store = filled(clock, expired=5)

    rows = list(CleanupPlan.now(store).take(batch_size))

    assert [row.key for row in rows] == [f"old {number}" for number in range(5)]
    assert {cmd.limit for cmd in store.commands if isinstance(cmd, c.TakeExpired)} == {limit}
    assert store.execute(c.Get(LOAD, "alive")) == "1"


@pytest.fixture
def orphan(clock: Clock) -> MemoryStore:
    """Return the store, with an asset that its only DAG has just stopped declaring."""
    store = MemoryStore(clock=clock)
    store.execute(c.DeclareDagAssets("etl", (("orders", "s3://lake/orders"),)))
    store.execute(c.Set(ORDERS, "watermark", "1", ANN))
    store.execute(c.DeclareDagAssets("etl", ()))
    return store


def test_the_state_of_an_orphan_is_kept_during_its_grace_period(clock, orphan):
    clock.now += timedelta(days=6)
    plan = OrphanPlan.now(orphan, timedelta(days=7))

    assert plan.assets() == ()
    assert plan.sweep() == 0
    assert orphan.execute(c.Get(ORDERS, "watermark")) == "1"


def test_an_asset_declared_again_within_its_grace_period_keeps_its_state(clock, orphan):
    clock.now += timedelta(days=6)
    orphan.execute(c.DeclareDagAssets("etl", (("orders", "s3://lake/orders"),)))
    clock.now += timedelta(days=6)

    assert OrphanPlan.now(orphan, timedelta(days=7)).sweep() == 0
    assert orphan.execute(c.Get(ORDERS, "watermark")) == "1"


@pytest.mark.parametrize("days", [0, 7])
def test_the_state_of_an_orphan_is_deleted_after_its_grace_period(clock, orphan, days):
    clock.now += timedelta(days=days)
    plan = OrphanPlan.now(orphan, timedelta(days=days))

    assert [asset.name for asset in plan.assets()] == ["orders"]
    assert plan.sweep() == 1
    assert plan.assets() == ()
    assert orphan.execute(c.History(ORDERS, "watermark")) == ()


def test_an_orphan_cannot_be_written(orphan):
    with pytest.raises(AssetInactive):
        orphan.execute(c.Set(ORDERS, "watermark", "2", ANN))


@pytest.fixture
def store_with_a_silent_client(clock):
    store = filled(clock, expired=0)
    for client in ("silent", "busy"):
        store.execute(Once(RequestId(client, 1), c.Set(LOAD, "k", "1", ANN)))
    clock.now += timedelta(days=1, seconds=1)
    store.execute(Once(RequestId("busy", 2), c.Set(LOAD, "k", "1", ANN)))
    return store


async def test_a_server_forgets_clients_that_were_inactive_for_a_day(
    clock, store_with_a_silent_client, settings, monkeypatch
):
    store = store_with_a_silent_client
    monkeypatch.setattr("holdfast.server.serve.open_store", lambda *_, **options: store)
    app = build(settings)

    async with app.router.lifespan_context(app):
        assert await asyncio.to_thread(store.forgot.wait, 20)

    assert store.execute(c.ForgetRequests(clock.now + timedelta(days=1))) == 1


async def test_a_server_continues_to_forget_clients_after_a_failure(clock, monkeypatch):
    monkeypatch.setattr("holdfast.cleanup.requests.INTERVAL", timedelta(0))

    class UnavailableAtFirst(WatchedStore):
        def execute(self, command):
            if not self.commands:
                self.commands.append(command)
                raise StoreUnavailable("the database is away")
            return super().execute(command)

    store = UnavailableAtFirst(clock)
    task = asyncio.create_task(forget_requests_periodically(store))
    assert await asyncio.to_thread(store.forgot.wait, 20)
    task.cancel()


def test_clients_that_were_inactive_for_a_day_are_forgotten_periodically(
    clock, store_with_a_silent_client
):
    store = store_with_a_silent_client

    cleanup = PeriodicCleanup(store, StateStore())
    cleanup.tick()
    cleanup._thread.join()

    assert c.ForgetRequests(clock.now - timedelta(days=1)) in store.commands
    assert store.execute(c.ForgetRequests(clock.now + timedelta(days=1))) == 1


def test_a_cleanup_that_fails_does_not_stop_the_others(clock):
    class Failing(WatchedStore):
        def execute(self, command):
            if isinstance(command, c.DeleteExpired | c.DeleteOrphans):
                raise BackendFailed("no")
            return super().execute(command)

    store = Failing(clock)
    cleanup = PeriodicCleanup(store, StateStore())

    cleanup.tick()
    cleanup._thread.join()

    assert c.ForgetRequests(clock.now - timedelta(days=1)) in store.commands
