"""Workloads of the worker processes of the chaos tests. Each reports on its pipe the acknowledged
writes.

They are a separate module so that a worker imports only what it needs.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from processes import Pipe, wait_for_start

from holdfast import commands as c
from holdfast.cleanup.plan import CleanupPlan
from holdfast.errors import StaleAttempt, StoreUnavailable, VersionConflict
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.store import Store
from holdfast.stores.sql import SqlStore

ME = ApiWriter("chaos")
TASK = TaskScope("chaos", "run", "writer")
STAGER = TaskScope("chaos", "run", "stager")
FIRST = AssetScope(name="first")
SECOND = AssetScope(name="second")

BATCH = tuple(f"batch {number:02}" for number in range(20))
KEEP_ALL = 100_000
PAST = datetime(2020, 1, 1, tzinfo=UTC)


def prepare(store: Store) -> None:
    """Register the scopes that the workloads write to."""
    for task in (TASK, STAGER):
        store.execute(c.RegisterTask(task))
    for asset in ("first", "second"):
        store.execute(c.DeclareAsset(asset, f"memory://{asset}"))


# a writer that is killed


def set_in_task_store(store: Store, text: str) -> None:
    store.execute(c.Set(TASK, "counter", text, ME))


def set_many_in_task_store(store: Store, text: str) -> None:
    store.execute(c.SetMany(TASK, tuple((key, text) for key in BATCH), ME))


def set_in_asset_store(store: Store, text: str) -> None:
    store.execute(c.Set(FIRST, "counter", text, ME))


def set_many_in_asset_store(store: Store, text: str) -> None:
    store.execute(c.SetMany(SECOND, tuple((key, text) for key in BATCH), ME))


def advance(store: Store, text: str) -> None:
    store.execute(c.Advance(FIRST, "mark", text, ME))


def stage_and_succeed(store: Store, text: str) -> None:
    me = TaskWriter(STAGER, store.execute(c.StartAttempt(STAGER)))
    store.execute(c.Set(FIRST, "staged 1", text, me, on_success=True))
    store.execute(c.Set(FIRST, "staged 2", text, me, on_success=True))
    store.execute(c.Advance(SECOND, "staged 3", text, me, on_success=True))
    store.execute(c.FinishAttempt(me, succeeded=True))


WRITES: dict[str, Callable[[Store, str], None]] = {
    "set": set_in_task_store,
    "set_many": set_many_in_task_store,
    "asset set": set_in_asset_store,
    "asset set_many": set_many_in_asset_store,
    "advance": advance,
    "staged": stage_and_succeed,
}


def write_without_end(pipe: Pipe, url: str, seed: int, written: dict[str, int]) -> None:
    """Write each kind with a number one higher than the last time, in random order."""
    choose = random.Random(seed).choice
    store = SqlStore(url)
    with suppress(StoreUnavailable):  # the database gets killed
        while True:
            kind = choose(list(WRITES))
            WRITES[kind](store, str(written[kind] + 1))
            written[kind] += 1
            pipe.send(kind)


# processes that write to the same entries


def open_together(pipe: Pipe, url: str, number: int) -> None:
    """Open the store at the same moment as others."""
    wait_for_start(pipe)
    with SqlStore(url) as store:
        store.execute(c.RegisterTask(TASK))
        store.execute(c.Set(TASK, f"opened by {number}", "1", ME))


def advance_and_count(pipe: Pipe, url: str, times: int, number: int) -> None:
    """Advance one key by random numbers, and add 1 to another by compare-and-set."""
    draw = random.Random(number)
    highest = 0
    with SqlStore(url, history_limit=KEEP_ALL) as store:
        wait_for_start(pipe)
        for _ in range(times):
            proposed = draw.randrange(1_000_000)
            highest = max(highest, proposed)
            stands = store.execute(c.Advance(FIRST, "mark", str(proposed), ME))
            assert int(stands) >= highest
            count_one(store)
    pipe.send(highest)


def count_one(store: Store) -> None:
    """Add 1 to the counter, by compare-and-set until it works."""
    while True:
        entry = store.execute(c.GetEntry(FIRST, "counter"))
        value, version = (int(entry.value), entry.version) if entry else (0, 0)
        with suppress(VersionConflict):
            store.execute(c.Set(FIRST, "counter", str(value + 1), ME, if_version=version))
            return


def supersede_each_other(pipe: Pipe, url: str, attempts: int, number: int) -> None:
    """Start attempts of one task, and write in each until another process has started the next.

    Reports (attempt, version) of each write to the task store that was acknowledged.
    """
    draw = random.Random(number)
    with SqlStore(url, history_limit=KEEP_ALL) as store:
        wait_for_start(pipe)
        for _ in range(attempts):
            time.sleep(draw.uniform(0, 0.05))
            me = TaskWriter(TASK, store.execute(c.StartAttempt(TASK)))
            with suppress(StaleAttempt):
                for _ in range(20):
                    version = store.execute(c.Set(TASK, "attempt", str(me.attempt), me))
                    pipe.send((me.attempt, version))
                    store.execute(c.Set(FIRST, "attempt", str(me.attempt), me))


def write_before_and_after_a_pause(pipe: Pipe, url: str, number: int) -> None:
    """Write in an attempt; on request, write again in both stores. Report the outcomes."""
    with SqlStore(url) as store:
        me = TaskWriter(TASK, store.execute(c.StartAttempt(TASK)))
        store.execute(c.Set(FIRST, "staged", "1", me, on_success=True))
        writes: list[c.Command[Any]] = [
            c.Set(TASK, "key", "1", me),
            c.SetMany(TASK, (("key", "1"),), me),
            c.Delete(TASK, "key", me),
            c.Set(FIRST, "key", "1", me),
            c.Set(FIRST, "staged", "1", me, on_success=True),
            c.Advance(FIRST, "mark", "1", me),
            c.Clear(FIRST, me),
        ]
        for write in writes:
            store.execute(write)
        pipe.send("written")
        pipe.recv()
        for write in [*writes, c.FinishAttempt(me, succeeded=True)]:
            try:
                store.execute(write)
            except StaleAttempt:
                pipe.send("stale")
            else:
                pipe.send(f"{write} was accepted")


def rewrite_expired(pipe: Pipe, url: str, times: int, number: int) -> None:
    """Let entries expire and write them again; rewritten entries must be kept."""
    keys = [f"{number} {index}" for index in range(5)]
    with SqlStore(url) as store:
        wait_for_start(pipe)
        for turn in range(times):
            for key in keys:
                store.execute(c.Set(TASK, key, "-1", ME, PAST))
            time.sleep(0.01)  # else cleanups would seldom come in between
            for key in keys:
                store.execute(c.Set(TASK, key, str(turn), ME))
            for key in keys:
                found = store.execute(c.Get(TASK, key))
                assert found == str(turn), f"{key}: {found} instead of {turn}"


def clean_up_until_told(pipe: Pipe, url: str, number: int) -> None:
    """Run cleanups without a break, in batches or not; reports how many rows went."""
    gone = 0
    with SqlStore(url) as store:
        wait_for_start(pipe)
        while not pipe.poll():
            gone += sum(CleanupPlan.now(store).delete(batch_size=(0, 3, 1000)[number % 3]))
            gone += sum(1 for _ in CleanupPlan.now(store).take(batch_size=2))
    pipe.send(gone)


def set_delete_and_expire(pipe: Pipe, url: str, times: int, number: int) -> None:
    """Write and remove one key in every way there is. Reports the versions that it was given."""
    draw = random.Random(number)
    with SqlStore(url) as store:
        wait_for_start(pipe)
        for _ in range(times):
            expiry = draw.choice([None, PAST, datetime.now(UTC) + timedelta(milliseconds=5)])
            pipe.send(store.execute(c.Set(TASK, "key", "1", ME, expiry)))
            match draw.choice(["delete", "clear", "clean up", "wait"]):
                case "delete":
                    store.execute(c.Delete(TASK, "key", ME))
                case "clear":
                    store.execute(c.Clear(TASK, ME))
                case "clean up":
                    sum(CleanupPlan.now(store).delete(batch_size=1))
                case "wait":
                    time.sleep(0.005)
