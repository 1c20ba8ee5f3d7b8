"""Ids of jobs from the task store: no access to other paths and other jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import commands as c
from holdfast.accessor.task_store import TaskStore
from holdfast.errors import InvalidInput, SparkUnavailable, UnreadableValue
from holdfast.model.entry import TaskWriter
from holdfast.model.scope import TaskScope
from holdfast.spark.jobs.claim import claim_key
from holdfast.spark.jobs.clusters.local import LocalSubmit
from holdfast.spark.jobs.clusters.standalone import StandaloneCluster
from holdfast.spark.jobs.job import SparkJob
from holdfast.spark.jobs.watch import Watch
from holdfast.testing.memory_store import MemoryStore

INTENT = "6c1d9f0e-5a0b-4d53-9d0c-000000000001"
FOREIGN = "6c1d9f0e-5a0b-4d53-9d0c-000000000002"
DRIVER = "driver-20260101120000-0001"
TASK = TaskScope("d", "r", "t")


@pytest.mark.parametrize(
    "driver", ["../../../../escaped", "..", ".", "", "/etc", "a/b", "6c1d9f0e-5a0b-4d53-9d0c"]
)
def test_a_driver_that_is_not_a_uuid_has_no_path(tmp_path: Path, driver: str) -> None:
    cluster = LocalSubmit("local[1]", tmp_path / "home")

    for ask in (cluster.find, cluster.status, cluster.cancel, cluster.where_logs_are):
        with pytest.raises(InvalidInput, match="not the id of a driver"):
            ask(driver)
    with pytest.raises(InvalidInput, match="not the id of a driver"):
        cluster.read(driver, "log", None)
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def store() -> TaskStore:
    inner = MemoryStore()
    inner.execute(c.RegisterTask(TASK))
    attempt = inner.execute(c.StartAttempt(TASK))
    return TaskStore(inner, TASK, TaskWriter(TASK, attempt))


def test_a_claim_of_a_foreign_driver_is_neither_followed_nor_cancelled(
    tmp_path: Path, store: TaskStore
) -> None:
    log = tmp_path / "spark" / "jobs" / FOREIGN / "log"
    log.parent.mkdir(parents=True)
    log.write_text("a secret")
    store.set(claim_key("spark_job"), {"intent": INTENT, "driver": FOREIGN})
    watch = Watch(LocalSubmit("local[1]", tmp_path), store, "spark_job", INTENT)

    for ask in (watch.look, watch.cancel):
        with pytest.raises(InvalidInput, match=f"'{FOREIGN}' is not a driver of the job {INTENT}"):
            ask(INTENT)
    assert [path.name for path in log.parent.iterdir()] == ["log"]


@pytest.mark.parametrize("claim", [{"driver": 7}, {"driver": ["x"]}, {"succeeded": "yes"}])
def test_an_invalid_claim_is_an_error(
    tmp_path: Path, store: TaskStore, claim: dict[str, Any]
) -> None:
    store.set(claim_key("spark_job"), {"intent": INTENT, **claim})
    watch = Watch(LocalSubmit("local[1]", tmp_path), store, "spark_job", INTENT)

    with pytest.raises(UnreadableValue, match="is not a driver's claim"):
        watch.claims.read()


def test_a_foreign_id_in_place_of_the_submitted_one_is_refused(
    tmp_path: Path, store: TaskStore
) -> None:
    watch = Watch(LocalSubmit("local[1]", tmp_path), store, "spark_job", INTENT)

    for ask in (watch.look, watch.cancel):
        with pytest.raises(InvalidInput, match="is not a driver of the job"):
            ask(FOREIGN)


def test_a_foreign_claim_does_not_hide_the_jobs_own_driver(
    tmp_path: Path, store: TaskStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    store.set(claim_key("spark_job"), {"intent": INTENT, "driver": FOREIGN})
    monkeypatch.setattr(LocalSubmit, "find", lambda self, intent: intent)
    job = SparkJob(task_id="t", application="app.py")
    context: Any = {"task_store": store, "job_intent": INTENT}

    assert job.find_job(INTENT, context) == INTENT


@pytest.mark.parametrize(
    ("log", "is_its"),
    [
        (f'Launch Command: "java" "-Dspark.holdfast.intent={INTENT}" "x"\n', True),
        (f'Launch Command: "java" "-Dspark.holdfast.intent={FOREIGN}" "x"\n', False),
        ('Launch Command: "java" "x"\n', False),
        ("", True),
        (None, True),
    ],
    ids=["its own", "another job's", "of no job", "not started", "no answer"],
)
def test_a_driver_of_a_standalone_cluster_is_identified_by_its_command(
    monkeypatch: pytest.MonkeyPatch, log: str | None, is_its: bool
) -> None:
    cluster = StandaloneCluster("spark://127.0.0.1:1", None, None)

    def read(*_: Any) -> tuple[bytes, int]:
        if log is None:
            raise SparkUnavailable("away")
        return log.encode(), len(log)

    monkeypatch.setattr(cluster, "read", read)

    assert cluster.is_driver_of(DRIVER, INTENT) is is_its
    assert not cluster.is_driver_of("../kill/x", INTENT)


def test_a_driver_is_looked_up_once(tmp_path: Path, store: TaskStore) -> None:
    class Counting(LocalSubmit):
        asked = 0

        def is_driver_of(self, driver: str, intent: str) -> bool:
            self.asked += 1
            return super().is_driver_of(driver, intent)

    cluster = Counting("local[1]", tmp_path)
    store.set(claim_key("spark_job"), {"intent": INTENT, "driver": INTENT})
    watch = Watch(cluster, store, "spark_job", INTENT)

    watch.look(INTENT)
    watch.look(INTENT)

    assert cluster.asked == 1
