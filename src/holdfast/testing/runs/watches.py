"""Watchers: one at a time, with writes and events in one transaction."""

from __future__ import annotations

from functools import partial

import msgspec
import pytest

from holdfast import commands as c
from holdfast.errors import (
    AssetInactive,
    Conflict,
    InvalidInput,
    StaleAttempt,
    UnknownAsset,
    VersionConflict,
)
from holdfast.model.entry import WatcherWriter
from holdfast.model.run import EmittedEvent, Process, Watch, WatchInfo
from holdfast.model.scope import AssetScope
from holdfast.store import Store
from holdfast.testing import Clock
from holdfast.testing.runs.fixtures import RunFixtures
from holdfast.testing.runs.samples import (
    CUSTOMERS_CHANGED,
    FIRST,
    MINUTE,
    ORDERS,
    ORDERS_CHANGED,
    ORDERS_SPEC,
    SECOND,
    at_once,
    dag,
)

ME = WatcherWriter()


def start(store: Store, process: Process = FIRST, dead: Process | None = None) -> Watch:
    watch = c.StartWatch(asset=ORDERS, watcher="files", process=process, lease=MINUTE, dead=dead)
    return store.execute(watch)


def emit(
    store: Store,
    watch: Watch,
    *writes: c.AssetWrite,
    event: EmittedEvent | None = ORDERS_CHANGED,
) -> None:
    store.execute(c.Emit(watch, writes, event))


class Watches(RunFixtures):
    @pytest.fixture
    def orders(self, store: Store) -> None:
        store.execute(c.DeclareAsset("orders", "s3://orders"))

    @pytest.mark.usefixtures("orders")
    def test_a_watch_has_its_asset_and_number(self, store: Store) -> None:
        watch = start(store)

        assert (watch.asset.name, watch.asset.uri) == ("orders", "s3://orders")
        assert watch.asset.asset_id is not None
        assert (watch.watcher, watch.number) == ("files", 1)
        assert start(store).number == 2

    @pytest.mark.usefixtures("orders")
    def test_watches_are_listed_with_their_process(self, store: Store, clock: Clock) -> None:
        start(store)
        newest = start(store)

        assert store.execute(c.ListWatches()) == (
            WatchInfo(watch=newest, owner=FIRST, leased_until=clock.now + MINUTE),
        )

    @pytest.mark.usefixtures("orders")
    def test_an_unknown_asset_cannot_be_watched(self, store: Store) -> None:
        with pytest.raises(UnknownAsset):
            store.execute(
                c.StartWatch(
                    asset=AssetScope(name="order"), watcher="files", process=FIRST, lease=MINUTE
                )
            )

    @pytest.mark.usefixtures("orders")
    def test_a_watched_asset_cannot_be_watched_by_another_process(
        self, store: Store, clock: Clock
    ) -> None:
        start(store)

        with pytest.raises(
            Conflict, match="`files` of asset `orders` is being run by process 100 on here"
        ):
            start(store, SECOND)
        assert start(store, SECOND, dead=FIRST).number == 2
        clock.forward(MINUTE)
        assert start(store, FIRST).number == 3

    @pytest.mark.usefixtures("orders")
    def test_one_of_several_concurrent_watches_starts(self, store: Store) -> None:
        rivals = [Process("here", pid, "t") for pid in range(6)]

        outcomes = at_once([partial(start, store, rival) for rival in rivals])

        assert sum(isinstance(each, Watch) for each in outcomes) == 1
        assert sum(isinstance(each, Conflict) for each in outcomes) == 5

    @pytest.mark.usefixtures("orders")
    def test_the_writes_of_a_watcher_commit_with_its_event(self, store: Store) -> None:
        watch = start(store)

        emit(
            store,
            watch,
            c.Set(ORDERS, "cursor", "1", ME),
            c.SetMany(ORDERS, (("a", "1"), ("b", "2")), ME),
            c.Advance(ORDERS, "newest", "7", ME),
            c.Delete(ORDERS, "a", ME),
        )

        page = store.execute(c.List(ORDERS))
        assert {found.entry.key: found.entry.value for found in page.found} == {
            "b": "2",
            "cursor": "1",
            "newest": "7",
        }
        assert {found.entry.writer for found in page.found} == {ME}
        [event] = store.execute(c.ListAssetEvents(ORDERS))
        assert (event.number, event.source) == (1, None)

    @pytest.mark.usefixtures("orders")
    def test_a_refused_write_discards_the_event(self, store: Store) -> None:
        watch = start(store)

        with pytest.raises(VersionConflict):
            emit(
                store,
                watch,
                c.Set(ORDERS, "a", "1", ME),
                c.Set(ORDERS, "cursor", "1", ME, if_version=4),
            )

        assert store.execute(c.List(ORDERS)).total == 0
        assert store.execute(c.ListAssetEvents(ORDERS)) == ()

    @pytest.mark.usefixtures("orders")
    def test_a_refused_event_discards_the_writes(self, store: Store) -> None:
        watch = start(store)

        with pytest.raises(InvalidInput, match="reports an event of asset `customers`"):
            emit(store, watch, c.Set(ORDERS, "cursor", "1", ME), event=CUSTOMERS_CHANGED)

        assert store.execute(c.Get(ORDERS, "cursor")) is None

    @pytest.mark.usefixtures("orders")
    def test_a_watcher_may_write_without_an_event(self, store: Store) -> None:
        emit(store, start(store), c.Set(ORDERS, "cursor", "1", ME), c.Clear(ORDERS, ME), event=None)

        assert store.execute(c.History(ORDERS, "cursor"))
        assert store.execute(c.ListAssetEvents(ORDERS)) == ()

    @pytest.mark.usefixtures("orders")
    def test_only_the_newest_watch_may_write(self, store: Store) -> None:
        stale = start(store)
        start(store, SECOND, dead=FIRST)

        with pytest.raises(StaleAttempt, match="watch 1 of watcher `files` of asset `orders`"):
            emit(store, stale, c.Set(ORDERS, "cursor", "1", ME))

        assert store.execute(c.Get(ORDERS, "cursor")) is None
        assert store.execute(c.ListAssetEvents(ORDERS)) == ()

    @pytest.mark.usefixtures("orders")
    def test_a_heartbeat_renews_only_the_newest_watch(self, store: Store, clock: Clock) -> None:
        stale = start(store)
        watch = start(store)
        clock.forward(MINUTE / 2)
        by_name = msgspec.structs.replace(watch, asset=ORDERS)

        lost = store.execute(
            c.Heartbeat(process=FIRST, lease=MINUTE, watches=(stale, watch, by_name))
        )

        assert lost == c.Lost(watches=(stale,))
        clock.forward(MINUTE / 2)
        with pytest.raises(Conflict):
            start(store, SECOND)

    @pytest.mark.usefixtures("orders")
    def test_an_inactive_asset_has_no_events(self, store: Store) -> None:
        store.execute(c.DeclareDagAssets("stock", (("stock", "s3://stock"),)))
        scope = AssetScope(name="stock")
        watch = store.execute(
            c.StartWatch(asset=scope, watcher="files", process=FIRST, lease=MINUTE)
        )
        store.execute(c.DeclareDagAssets("stock", ()))

        with pytest.raises(AssetInactive):
            emit(store, watch, event=EmittedEvent("stock", "s3://stock"))

    @pytest.mark.usefixtures("orders")
    def test_a_watchers_event_starts_a_run(self, store: Store) -> None:
        store.execute(c.SaveFile("a.py", (dag("sales", ORDERS_SPEC),)))

        emit(store, start(store))

        assert store.execute(c.CreateAssetRun("sales", "r1")) is not None
