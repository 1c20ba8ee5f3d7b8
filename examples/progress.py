"""Report the progress of a long task.

    holdfast run progress.py --run-id today

The terminal shows `done_x` of `x` in the entry `progress` as a bar. To read it from another
terminal, in the same directory, while it runs:

    holdfast state-store get --dag-id progress --run-id today --task-id rebuild progress

The progress of a task that ended long ago is of no use, so the entry expires after an hour; state
that the task needs to resume should have no such `retention`.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from holdfast.sdk import dag, task

PARTITIONS = 30


def rebuild_partition(partition: int) -> None:
    """Simulate the work."""
    time.sleep(0.05)


@dag(schedule=None)
def progress() -> None:
    @task
    def rebuild(task_store: Any) -> None:
        for partition in range(PARTITIONS):
            rebuild_partition(partition)
            task_store.set(
                "progress",
                {"done_partitions": partition + 1, "partitions": PARTITIONS},
                retention=timedelta(hours=1),
            )

    rebuild()


progress()
