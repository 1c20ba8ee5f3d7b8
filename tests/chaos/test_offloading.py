"""SIGKILL of a worker that offloads to a real S3 server: no acknowledged write is lost, and objects
and references agree in the end."""

from __future__ import annotations

import random
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime, timedelta

import offloading as o
import pytest
import sqlalchemy as sa
from objectserver import ObjectServer, object_server
from processes import Worker
from servers import SqliteDatabase

from holdfast import commands as c
from holdfast.model.value import reference_in
from holdfast.stores.sql import tables

pytestmark = pytest.mark.chaos

STEPS = {
    "overwrite": ["ReserveObjects", "put", "Set", "TakePurges", "remove", "FinishPurges"],
    "overwrite_asset": ["ReserveObjects", "put", "Set", "TakePurges", "remove", "FinishPurges"],
    "write_and_delete": [
        *("ReserveObjects", "put", "Set"),
        *("Delete", "TakePurges", "remove", "FinishPurges"),
    ],
    "expire_and_clean_up": [
        *("ReserveObjects", "put", "Set"),
        *("Now", "DeleteExpired", "TakePurges", "remove", "FinishPurges"),
    ],
    "stage_and_succeed": [
        *("StartAttempt", "ReserveObjects", "put", "Set", "FinishAttempt"),
        *("TakePurges", "TakePurges", "remove", "FinishPurges"),
    ],
}
"""Steps of each action; the worker is killed at the next one."""

HOLDERS = (tables.task_entry, tables.asset_entry, tables.asset_history, tables.staged_write)
LATER = timedelta(days=2)
"""Time after which no reservation and no lease of a killed worker is valid."""


class Survivor:
    """Database and bucket after a worker has been killed."""

    def __init__(self, place: o.Place) -> None:
        self.place = place
        self.store = place.opened()
        self.later = place.opened(clock=lambda: datetime.now(UTC) + LATER)
        o.prepare(self.store)
        self.numbers = dict.fromkeys(o.ACTIONS, 0)
        for name, action in o.ACTIONS.items():
            for number in range(1, o.HISTORY + 2):
                action(self.store, number)
                self.numbers[name] = number

    def note(self, worker: Worker, seconds: float) -> None:
        """Count the acknowledged writes for some seconds, or to the worker's end."""
        for name in worker.reports_until(time.monotonic() + seconds):
            self.numbers[name] += 1

    def check(self) -> None:
        """Assert that acknowledged writes are present; one in progress may be."""
        for name, scope in o.KEPT.items():
            before, after = (o.text_of(self.numbers[name] + more) for more in (0, 1))
            stands = self.store.execute(c.Get(scope, name))
            assert stands in (before, after), name
            self.numbers[name] += stands == after
        left = self.store.execute(c.Get(o.TASK, "write_and_delete"))
        assert left in (None, o.text_of(self.numbers["write_and_delete"] + 1))
        while any(self.later.purge()):
            pass
        assert self._objects() == self._named(HOLDERS)
        assert self._named([tables.purge]) == set()

    def settle(self) -> None:
        """Wait until both servers have ended the requests of the killed worker."""
        seen = None
        while seen != (now := (self._objects(), self._named([*HOLDERS, tables.purge]))):
            seen = now
            time.sleep(0.2)

    def _objects(self) -> set[str]:
        return {stored.reference for stored in self.place.backend().list_objects()}

    def _named(self, holders: Iterable[sa.Table]) -> set[str]:
        """Return all references in these tables."""
        engine = sa.create_engine(self.place.url, poolclass=sa.NullPool)
        with engine.connect() as connection:
            texts = [
                text
                for holder in holders
                for text in connection.scalars(sa.select(holder.c.value))
                if text is not None
            ]
        return {reference for text in texts if (reference := reference_in(text))}


@pytest.fixture(scope="module")
def s3() -> Iterator[ObjectServer]:
    with object_server() as server:
        yield server


@pytest.fixture
def survive(s3: ObjectServer, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Survivor]:
    for name, value in s3.environment.items():
        monkeypatch.setenv(name, value)
    return lambda url: Survivor(o.Place(url, s3.make_bucket(), s3.environment))


@pytest.mark.parametrize("action", STEPS)
def test_a_worker_killed_at_any_step_leaves_objects_and_references_consistent(
    action: str, survive: Callable[[str], Survivor], sqlite_database: SqliteDatabase, rounds: int
) -> None:
    survivor = survive(sqlite_database.empty())
    undisturbed = Worker(o.do_and_die, survivor.place, action, o.HISTORY + 2, None)
    assert undisturbed.finish() == [STEPS[action]]
    survivor.check()

    for _ in range(max(1, rounds * 2 // 5)):
        for deadly in range(len(STEPS[action])):
            number = survivor.numbers[action] + 1
            worker = Worker(o.do_and_die, survivor.place, action, number, deadly)
            worker.process.join(60)
            assert worker.process.exitcode == -signal.SIGKILL
            survivor.check()


def test_a_worker_killed_during_purges_leaves_objects_and_references_consistent(
    survive: Callable[[str], Survivor], database_url: str, rounds: int
) -> None:
    survivor = survive(database_url)
    for seed in range(max(1, rounds * 2 // 5)):
        draw = random.Random(seed)
        purger = Worker(o.purge_without_end, survivor.place)
        worker = Worker(o.act_without_end, survivor.place, survivor.numbers)
        assert purger.pipe.poll(60)
        assert worker.pipe.poll(60)
        survivor.note(worker, seconds=draw.uniform(0, 0.5))
        assert worker.process.is_alive()
        assert purger.process.is_alive()
        purger.kill()
        worker.kill()
        survivor.note(worker, seconds=0)
        survivor.settle()
        survivor.check()
