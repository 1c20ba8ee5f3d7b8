"""Drivers of one job, of which one works, as plain processes without Spark."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import msgspec
import pytest
from served import ServedStores, serving_stores

from holdfast import commands as c
from holdfast.access.identity import JobIdentity
from holdfast.accessor.binding import Rules
from holdfast.accessor.task_store import TaskStore
from holdfast.errors import OutsideTask
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import TaskScope
from holdfast.spark.jobs.claim import Claim, claim_key
from holdfast.spark.jobs.driver import NOT_MINE, driver
from holdfast.spark.jobs.ticket import Ticket
from holdfast.testing.memory_store import MemoryStore

KEY = "spark_job"
INTENT = "5d0f9d0e-7d0c-4c39-9f3a-3f7f0d9b6a11"
SCOPE = TaskScope("d", "r", "job")
WORKS = """
import sys, time
from holdfast.spark.jobs import driver as jobdriver
jobdriver.HEARTBEAT = 0.1
with jobdriver.driver() as job:
    assert jobdriver.driver() is job
    print(job.id, flush=True)
    sys.stdin.readline()
    job.task_store.set("by", [job.id, job.dag_id, job.run_id, job.task_id, job.map_index])
    job.asset_store(name="orders").advance("newest", 7)
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServedStores]:
    with serving_stores(tmp_path_factory.mktemp("home")) as served:
        yield served


@pytest.fixture
def task_store(served: ServedStores) -> TaskStore:
    """Return the store of a task that is about to submit a job with the intent `INTENT`."""
    store = MemoryStore()
    store.execute(c.RegisterTask(SCOPE))
    store.execute(c.DeclareAsset("orders", None))
    served.store.become(store)
    accessor = TaskStore(store, SCOPE, ApiWriter("ann"))
    accessor.set(f"{KEY}.intent", INTENT)
    return accessor


class Process(subprocess.Popen[str]):
    """Driver process."""

    def says(self) -> str:
        assert self.stdout is not None
        return self.stdout.readline().strip()

    def go_on(self) -> tuple[int, str]:
        _, errors = self.communicate("\n", timeout=30)
        return self.returncode, errors


class Drivers:
    def __init__(self, served: ServedStores) -> None:
        self._served = served
        self._started: list[Process] = []

    def start(self, name: str, code: str = WORKS, intent: str = INTENT) -> Process:
        identity = JobIdentity(SCOPE, f"{KEY}.intent", intent, (("orders", None),))
        ticket = Ticket(
            url=self._served.server.url,
            token=self._served.server.tokens.issue(identity),
            scope=SCOPE,
            key=KEY,
            intent=intent,
            rules=Rules(),
            retry_window=5.0,
            driver=name,
        )
        process = Process(
            [sys.executable, "-c", code],
            env=os.environ | ticket.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._started.append(process)
        return process

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.communicate()


@pytest.fixture
def drivers(served: ServedStores) -> Iterator[Drivers]:
    drivers = Drivers(served)
    yield drivers
    drivers.close()


def claim(store: TaskStore) -> Any:
    return msgspec.convert(store.get(claim_key(KEY)), Claim)


def test_the_first_driver_works_with_both_stores_and_a_second_ends_at_once(
    task_store: TaskStore, drivers: Drivers, served: ServedStores
) -> None:
    first = drivers.start("first")
    assert first.says() == "first"
    second = drivers.start("second")

    status, errors = second.go_on()
    ended = first.go_on()

    assert status == NOT_MINE
    assert f"does not belong to it: driver first (process {first.pid} on" in errors
    assert ended == (0, "")
    assert task_store.get("by") == ["first", "d", "r", "job", -1]
    assert served.store.execute(c.Get(c.AssetScope(name="orders"), "newest")) == "7"
    assert (claim(task_store).driver, claim(task_store).succeeded) == ("first", True)


def test_one_of_several_concurrent_drivers_works(task_store: TaskStore, drivers: Drivers) -> None:
    started = [drivers.start(str(number)) for number in range(4)]

    ended = [driver.go_on()[0] for driver in started]

    assert sorted(ended) == [0, NOT_MINE, NOT_MINE, NOT_MINE]
    assert task_store.get("by")[0] == str(ended.index(0))


def test_a_driver_whose_intent_is_not_current_ends_at_once(
    task_store: TaskStore, drivers: Drivers
) -> None:
    task_store.set(f"{KEY}.intent", str(uuid4()))

    status, errors = drivers.start("late").go_on()

    assert status == NOT_MINE
    assert "its task no longer waits for it" in errors
    assert task_store.get(claim_key(KEY)) is None


@pytest.mark.parametrize("entry", [f"{KEY}.intent", claim_key(KEY)])
def test_a_driver_that_loses_the_job_while_it_works_ends(
    entry: str, task_store: TaskStore, drivers: Drivers
) -> None:
    working = drivers.start("first")
    assert working.says() == "first"

    task_store.set(entry, {"intent": INTENT} if entry == claim_key(KEY) else str(uuid4()))

    assert working.wait(timeout=30) == NOT_MINE
    assert task_store.get("by") is None


def test_a_driver_restarted_by_the_cluster_has_the_job_again(
    task_store: TaskStore, drivers: Drivers
) -> None:
    died = drivers.start("supervised")
    assert died.says() == "supervised"
    died.kill()
    died.wait()

    assert drivers.start("supervised").go_on() == (0, "")


def test_a_child_process_of_a_driver_is_not_a_driver(
    task_store: TaskStore, drivers: Drivers
) -> None:
    first = drivers.start("first")
    assert first.says() == "first"

    status, errors = drivers.start("first").go_on()

    assert (status, "runs it" in errors) == (NOT_MINE, True)
    assert first.go_on()[0] == 0


def test_a_failed_driver_is_recorded_and_may_be_restarted(
    task_store: TaskStore, drivers: Drivers
) -> None:
    status, errors = drivers.start("first", WORKS + '    raise KeyError("no orders")').go_on()
    told = claim(task_store).succeeded
    again = drivers.start("first").go_on()

    assert (status, told) == (1, False)
    assert errors.rstrip().endswith("KeyError: 'no orders'")
    assert again == (0, "")


def test_a_driver_continues_while_its_stores_are_unavailable(
    task_store: TaskStore, drivers: Drivers, served: ServedStores
) -> None:
    working = drivers.start("first")
    assert working.says() == "first"
    inner, served.store._inner = served.store._inner, MemoryStore()  # which knows no such task
    time.sleep(0.5)
    served.store._inner = inner

    status, errors = working.go_on()

    assert status == 0
    assert errors.count("could not send the heartbeat of the job") == 1


def test_a_driver_whose_heartbeat_was_written_without_answer_continues(
    task_store: TaskStore, drivers: Drivers
) -> None:
    working = drivers.start("first")
    assert working.says() == "first"
    task_store.set(claim_key(KEY), msgspec.to_builtins(claim(task_store)))
    time.sleep(0.5)

    assert working.go_on() == (0, "")


def test_a_driver_that_has_done_its_work_succeeds_without_its_stores(
    task_store: TaskStore, drivers: Drivers, served: ServedStores
) -> None:
    working = drivers.start("first", WORKS.partition("    job.task_store")[0])
    assert working.says() == "first"
    served.store._inner = MemoryStore()  # which knows no such task

    status, errors = working.go_on()

    assert status == 0
    assert "could not record the end of the job" in errors


def test_a_program_that_was_not_submitted_is_not_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HOLDFAST_JOB", raising=False)

    with pytest.raises(OutsideTask, match="not the driver of a job") as raised:
        driver()

    assert "holdfast.connect()" in raised.value.hint


def test_the_token_is_passed_separately_from_the_ticket() -> None:
    ticket = Ticket(
        url="http://h:1",
        token="secret",
        scope=SCOPE,
        key=KEY,
        intent=INTENT,
        rules=Rules(),
        retry_window=1.0,
    )

    told = ticket.environment()

    assert Ticket.found(told) == ticket
    assert [name for name, text in told.items() if "secret" in text] == ["HOLDFAST_JOB_TOKEN"]
