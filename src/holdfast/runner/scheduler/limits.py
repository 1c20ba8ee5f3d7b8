"""Limits on what runs at once, and the choice of what starts next: fair between DAGs."""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from itertools import count
from typing import Final, NamedTuple

import msgspec

from holdfast import commands as c
from holdfast.errors import Conflict, NotFound
from holdfast.model.dag import DagSpec, TaskSpec
from holdfast.model.pool import NO_LIMIT, Pool
from holdfast.model.run import TaskInstance, TaskState
from holdfast.process import this_process
from holdfast.runner.scheduler.decide import Start
from holdfast.store import Store

POOLS_KEPT: Final = 1.0
"""Seconds for which the use of pools by other processes is not read again."""


def check_pools(store: Store, dag: DagSpec) -> None:
    """Raise NotFound where a task names a pool that does not exist, and Conflict where its pool has
    fewer slots than it needs: in a run that a person waits for, it would wait without end."""
    pools = {pool.name: pool for pool in store.execute(c.ListPools())}
    for task in dag.tasks:
        where = f"task `{task.task_id}` of DAG `{dag.dag_id}`"
        hint = f"`holdfast pools set {task.pool} SLOTS`"
        pool = pools.get(task.pool)
        if pool is None:
            raise NotFound(
                f"{where} is in pool `{task.pool}`, which does not exist", hint=f"create it: {hint}"
            )
        if pool.slots != NO_LIMIT and task.pool_slots > pool.slots:
            raise Conflict(
                f"{where} needs {task.pool_slots} slots of pool `{pool.name}`, which has "
                f"{pool.slots}",
                hint=f"give it more: {hint}",
            )


class Ready:
    """The task instances of a run that only limits keep from starting."""

    def __init__(
        self, dag: DagSpec, instances: Sequence[TaskInstance], starts: Sequence[Start]
    ) -> None:
        known = {(one.scope.task_id, one.scope.map_index): one for one in instances}
        self.dag = dag
        self.running = Counter(
            one.scope.task_id for one in instances if one.state is TaskState.RUNNING
        )
        self.instances: dict[str, deque[TaskInstance]] = {}
        for start in starts:
            self.instances.setdefault(start[0], deque()).append(known[start])

    def tasks(self) -> Iterator[TaskSpec]:
        """Yield the tasks with such instances, in the order of the DAG."""
        return (task for task in self.dag.tasks if self.instances.get(task.task_id))


class _Taken(NamedTuple):
    dag_id: str
    pool: str
    slots: int


class Limits:
    """What this process runs, and may run: `parallelism`, pools, and the limits of DAGs and tasks.

    Other processes use the same pools. Their use is read from the store now and then; the store
    itself refuses an attempt for which there is no slot, and `close_pool` reports that.
    """

    def __init__(self, store: Store, parallelism: int) -> None:
        self._store = store
        self._parallelism = parallelism
        self._taken: dict[int, _Taken] = {}
        """By the number of the order."""
        self._used: Counter[str] = Counter()
        """Slots of each pool that this process uses."""
        self._by_dag: Counter[str] = Counter()
        """Attempts of each DAG that this process runs."""
        self._pools: dict[str, Pool] = {}
        self._read_at = float("-inf")
        self._served: dict[str, int] = {}
        self._numbers = count(1)

    def take(self, number: int, dag_id: str, task: TaskSpec) -> None:
        """Count an attempt, by the number of its order, until `give_back`."""
        self._taken[number] = taken = _Taken(dag_id, task.pool, task.pool_slots)
        self._used[taken.pool] += taken.slots
        self._by_dag[taken.dag_id] += 1
        self._served[taken.dag_id] = next(self._numbers)

    def give_back(self, number: int) -> str | None:
        """Count an attempt no more; return its pool."""
        taken = self._taken.pop(number, None)
        if taken is None:
            return None
        self._used[taken.pool] -= taken.slots
        self._by_dag[taken.dag_id] -= 1
        return taken.pool

    def give_back_all(self) -> None:
        self._taken.clear()
        self._used.clear()
        self._by_dag.clear()

    def close_pool(self, name: str) -> None:
        """Start nothing in a pool, which had no free slot, until its use is read again."""
        if (pool := self._pools.get(name)) is not None:
            slots = max(pool.slots, 1)
            self._pools[name] = msgspec.structs.replace(pool, slots=slots, used=slots)

    def choose(self, runs: Sequence[Ready]) -> Iterator[tuple[Ready, TaskSpec, TaskInstance]]:
        """Yield the task instances to start, one after the other; each is to be taken at once.

        The next one is of the DAG with the fewest running attempts here or, of several, of the DAG
        whose turn was the longest ago. Of its runs, the first comes first.
        """
        waiting = list(runs)
        while waiting and len(self._taken) < self._parallelism:
            self._read_pools()
            run = min(waiting, key=self._place)
            task = next((task for task in run.tasks() if not self._obstacle(run, task)), None)
            if task is None:
                waiting.remove(run)
                continue
            run.running[task.task_id] += 1
            yield run, task, run.instances[task.task_id].popleft()

    def reasons(self, run: Ready) -> dict[str, str]:
        """Return what keeps each task of the run from starting, by task."""
        self._read_pools()
        parallel = f"a free slot of its scheduler: runner.parallelism is {self._parallelism}"
        return {task.task_id: self._obstacle(run, task) or parallel for task in run.tasks()}

    def _place(self, run: Ready) -> tuple[int, int]:
        dag_id = run.dag.dag_id
        return self._by_dag[dag_id], self._served.get(dag_id, 0)

    def _obstacle(self, run: Ready, task: TaskSpec) -> str:
        """Return the limit that keeps a task from starting; empty if none but `parallelism`."""
        if run.running.total() >= run.dag.max_active_tasks:
            return f"other tasks of its run: max_active_tasks is {run.dag.max_active_tasks}"
        if task.max_active is not None and run.running[task.task_id] >= task.max_active:
            return f"its other instances: max_active_tis_per_dagrun is {task.max_active}"
        pool = self._pools.get(task.pool)
        if pool is None:
            return f"pool `{task.pool}`, which does not exist"
        if pool.slots == NO_LIMIT:
            return ""
        if task.pool_slots > pool.slots:
            return f"{task.pool_slots} slots of pool `{pool.name}`, which has {pool.slots}"
        if pool.used + self._used[pool.name] + task.pool_slots > pool.slots:
            slots = "a free slot" if task.pool_slots == 1 else f"{task.pool_slots} free slots"
            return f"{slots} of pool `{pool.name}`, which has {pool.slots}"
        return ""

    def _read_pools(self) -> None:
        now = time.monotonic()
        if now >= self._read_at + POOLS_KEPT:
            pools = self._store.execute(c.ListPools(besides=this_process()))
            self._pools = {pool.name: pool for pool in pools}
            self._read_at = now
