"""Say how far a long task has come, for anybody who wants to know.

    holdfast run progress.py --run-id today

The terminal draws `done_x` of `x` in the entry `progress` as a bar. Look at it from another
terminal, in the same directory, while it runs:

    holdfast state-store get --dag-id progress --run-id today --task-id rebuild progress

Nobody needs the progress of a task that ended long ago, so it expires after an hour; what the task
needs to resume would have no such `retention`.
"""

from __future__ import annotations

import time
from datetime import timedelta
from typing import Any

from holdfast.sdk import dag, task

PARTITIONS = 30


def rebuild_partition(partition: int) -> None:
    """Stands in for the work."""
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
