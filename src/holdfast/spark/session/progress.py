"""Progress of an attempt's Spark work, in the `spark_progress` entry of its task store.

The entry `progress` belongs to the author of the task.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable
from threading import Event, Lock, Thread
from typing import TYPE_CHECKING, Any, Final, Self

from holdfast.accessor.task_store import TaskStore
from holdfast.spark.session.row_count import RowCount

if TYPE_CHECKING:
    from pyspark.sql.connect.shell.progress import StageInfo

KEY: Final = "spark_progress"
INTERVAL: Final = 1.0
_COUNTS: Final = (
    "jobs",
    "stages",
    "done_stages",
    "tasks",
    "done_tasks",
    "running_tasks",
    "bytes_read",
)

log = logging.getLogger("holdfast")


class Progress:
    """A progress handler for Spark Connect that counts over all operations of a session.

    A separate thread writes the entry, at most once in an interval, so that Spark's results never
    wait for the store.
    """

    def __init__(self, task_store: TaskStore, ui: str, rows: RowCount | None = None) -> None:
        self._store = task_store.inline()  # not offloaded: for all who watch the run
        self._link = {"ui": ui} if ui else {}
        self._rows = rows
        self._lock = Lock()
        self._running: dict[str | None, Counter[str]] = {}
        self._ended: Counter[str] = Counter()
        self._changed = False
        self._warned = False
        self._leaving = Event()
        self._thread = Thread(target=self._write_on, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._leaving.set()
        self._thread.join()

    def __call__(
        self,
        stages: Iterable[StageInfo] | None,
        inflight_tasks: int,
        operation_id: str | None,
        done: bool,
    ) -> None:
        reported = tuple(stages or ())
        if not reported:
            return  # a command, a query's status, or a job too short for a report
        with self._lock:
            if done:
                self._running.pop(operation_id, None)
                self._ended.update(ended(reported))
            else:
                self._running[operation_id] = running(reported, inflight_tasks)
            self._changed = True

    def value(self) -> dict[str, Any]:
        """Return the value of the entry. Of jobs whose tasks were never reported, only the number
        is known."""
        total = Counter(self._ended)
        for counts in self._running.values():
            total.update(counts)
        known = _COUNTS if total["stages"] else ("jobs",)
        return {name: total[name] for name in known} | self._link

    def _write_on(self) -> None:
        while not self._leaving.wait(INTERVAL):
            self._write()
        self._write(final=True)

    def _write(self, *, final: bool = False) -> None:
        with self._lock:
            # The rows of an operation may be reported after the operation itself.
            if not self._changed and not (final and self._rows and self._ended):
                return
            self._changed = False
            value = self.value()
        if self._rows is not None:
            value |= self._rows.count(final=final)
        try:
            self._store.set(KEY, value)
        except Exception as error:
            # The job goes on: its result does not depend on its progress being stored.
            if not self._warned:
                log.warning("could not store the progress of Spark: %s", error)
                self._warned = True


def running(stages: tuple[StageInfo, ...], running_tasks: int) -> Counter[str]:
    """Return the counts of a running operation."""
    return Counter(
        jobs=1,
        stages=len(stages),
        done_stages=sum(stage.done for stage in stages),
        tasks=sum(stage.num_tasks for stage in stages),
        done_tasks=sum(stage.num_completed_tasks for stage in stages),
        running_tasks=running_tasks,
        bytes_read=sum(stage.num_bytes_read for stage in stages),
    )


def ended(stages: tuple[StageInfo, ...]) -> Counter[str]:
    """Return the counts of an operation that has ended. Planned stages that did not run, such as
    one whose result another one had, no longer count."""
    begun = tuple(stage for stage in stages if stage.num_completed_tasks)
    tasks = sum(stage.num_completed_tasks for stage in begun)
    return Counter(
        jobs=1,
        stages=len(begun),
        done_stages=len(begun),
        tasks=tasks,
        done_tasks=tasks,
        bytes_read=sum(stage.num_bytes_read for stage in begun),
    )
