"""A loop over items that take their time, plain and checkpointed."""

import time
from collections.abc import Iterable
from typing import Any

from holdfast.accessor.task_store import TaskStore
from holdfast.sdk import dag, task
from holdfast.spark.checkpoints.checkpoint import checkpointed


@dag(schedule=None)
def checkpoint_loop() -> None:
    @task
    def loops(task_store: TaskStore, dag_run: Any) -> dict[str, list[float]]:
        conf = dag_run.conf
        items = [f"s3://lake/raw/orders/part-{number:05}.csv" for number in range(conf["items"])]
        seconds: dict[str, list[float]] = {"plain": [], "checkpointed": []}
        for turn in range(conf["rounds"]):
            seconds["plain"].append(timed(items, conf["seconds"]))
            recorded = checkpointed(items, task_store, key=f"round {turn}")
            seconds["checkpointed"].append(timed(recorded, conf["seconds"]))
        return seconds

    loops()


def timed(items: Iterable[str], seconds: float) -> float:
    start = time.perf_counter()
    for _ in items:
        time.sleep(seconds)
    return time.perf_counter() - start


checkpoint_loop()
