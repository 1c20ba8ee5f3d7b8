"""Jobs whose task was cleared while they ran: cancelled once."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

import pipeline
import pytest

from holdfast import commands as c
from holdfast.accessor.task_store import TaskStore
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.run import Ending, Outcome, TaskState
from holdfast.model.scope import TaskScope
from holdfast.sdk.operator import BaseOperator
from holdfast.sdk.resumable import ResumableJobMixin
from holdfast.stores.sql import SqlStore

SCOPE = TaskScope("etl", "r1", "extract")


class Job(ResumableJobMixin, BaseOperator):
    """Job that runs until it is cancelled."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.jobs: dict[str, str] = {}

    def execute(self, context: Any) -> Any:
        return self.execute_resumable(context)

    def submit_job(self, context: Any) -> str:
        name = f"job-{len(self.jobs)}"
        self.jobs[name] = "RUNNING"
        return name

    def get_job_status(self, external_id: str, context: Any) -> str:
        return self.jobs[external_id]

    def is_job_active(self, status: str) -> bool:
        return status == "RUNNING"

    def is_job_succeeded(self, status: str) -> bool:
        return status == "SUCCEEDED"

    def poll_until_complete(self, external_id: str, context: Any) -> None:
        """Return at once, as if the runner had ended before the job."""

    def get_job_result(self, external_id: str, context: Any) -> str:
        return external_id

    def cancel_job(self, external_id: str, context: Any) -> None:
        self.jobs[external_id] = "CANCELLED"


class Runs:
    """Attempts of one task, which end as the test says."""

    def __init__(self, store: SqlStore) -> None:
        self._store = store
        self._job = Job(task_id="job")
        pipeline.save(store)
        pipeline.begin(store)

    def attempt(self) -> TaskWriter:
        writer = TaskWriter(SCOPE, self._store.execute(c.StartAttempt(SCOPE)))
        self._job.execute(cast(Any, {"task_store": TaskStore(self._store, SCOPE, writer)}))
        return writer

    def interrupt(self, writer: TaskWriter) -> None:
        ending = Ending(outcome=Outcome.INTERRUPTED, state=TaskState.SCHEDULED)
        self._store.execute(c.FinishAttempt(writer, succeeded=False, ending=ending))

    def clear(self) -> None:
        self._store.execute(
            c.ClearTasks(
                dag_id=SCOPE.dag_id,
                run_id=SCOPE.run_id,
                tasks=((SCOPE.task_id, None),),
                writer=ApiWriter("ann"),
            )
        )

    @property
    def jobs(self) -> dict[str, str]:
        return self._job.jobs


@pytest.fixture
def runs(tmp_path: Path) -> Iterator[Runs]:
    store = SqlStore(f"sqlite:///{tmp_path / 'state.db'}")
    yield Runs(store)
    store.close()


def test_a_job_continues_when_its_runner_is_interrupted(runs: Runs) -> None:
    runs.interrupt(runs.attempt())

    runs.attempt()

    assert runs.jobs == {"job-0": "RUNNING"}


def test_a_task_that_was_cleared_ends_its_job_and_later_attempts_find_the_new_one(
    runs: Runs,
) -> None:
    runs.attempt()
    runs.clear()

    runs.interrupt(runs.attempt())
    runs.interrupt(runs.attempt())
    runs.attempt()

    assert runs.jobs == {"job-0": "CANCELLED", "job-1": "RUNNING"}
