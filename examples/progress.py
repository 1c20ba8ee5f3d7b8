"""Say how far a long task has come, for anybody who wants to know.

Look at it from another terminal, in the same directory, while it runs:

    holdfast state-store get --dag-id sales --run-id 2026-01-31 --task-id rebuild progress

Nobody needs the progress of a task that ended long ago, so it expires after an hour; what the task
needs to resume would have no such `retention`.
"""

from __future__ import annotations

import time
from datetime import timedelta

import holdfast

PARTITIONS = 30


def rebuild(partition: int) -> None:
    """Stands in for the work."""
    time.sleep(0.05)


def main() -> None:
    with (
        holdfast.connect() as connection,
        connection.task_store("sales", "2026-01-31", "rebuild").attempt() as attempt,
    ):
        for partition in range(PARTITIONS):
            rebuild(partition)
            attempt.task_store.set(
                "progress",
                {"done": partition + 1, "of": PARTITIONS},
                retention=timedelta(hours=1),
            )


if __name__ == "__main__":
    main()
