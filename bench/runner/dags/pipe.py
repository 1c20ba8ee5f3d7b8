"""Sets and gets of a task, beside those of a store that its process opens by itself."""

from typing import Any

from bench.rounds import Contender, rates, timed
from bench.runner.pipe import DIRECT, PIPE, TURNS
from bench.store.single import through_task_store
from bench.workload import KEYS, VALUES
from holdfast.accessor.task_store import TaskStore
from holdfast.sdk import dag, task


@dag(schedule=None)
def pipe() -> None:
    @task
    def measure(task_store: TaskStore, dag_run: Any) -> dict[str, dict[str, float]]:
        ours = {
            "set": lambda n: task_store.set(KEYS[n % 100], VALUES[n % 100]),
            "get": lambda n: task_store.get(KEYS[n % 100]),
        }
        direct = through_task_store(dag_run.conf["url"])
        return {
            what: rates(
                {
                    PIPE: Contender(timed(ours[what]), turn),
                    DIRECT: Contender(timed(direct[what]), turn),
                }
            )
            for what, turn in TURNS.items()
        }

    measure()


pipe()
