"""Limits on what runs at once: parallelism, pools, and the limits of DAGs and tasks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from project import Project, wait_until
from test_decide import one, task

from holdfast import commands as c
from holdfast.model.dag import DagSpec, LiteralAxis, TaskSpec
from holdfast.model.run import AttemptInfo, RunState, TaskInstance, TaskState
from holdfast.model.scope import TaskScope
from holdfast.runner.scheduler.limits import Limits, Ready
from holdfast.stores.sql import SqlStore

RUNNING, SCHEDULED, REMOVED = TaskState.RUNNING, TaskState.SCHEDULED, TaskState.REMOVED


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    with SqlStore(f"sqlite:///{tmp_path}/holdfast.db") as store:
        yield store


def ready(*tasks: TaskSpec, instances: list[TaskInstance], most: int = 16) -> Ready:
    """Return a run whose scheduled instances may start."""
    dag = DagSpec(dag_id="etl", file="etl.py", tasks=tasks, max_active_tasks=most)
    starts = [
        (each.scope.task_id, each.scope.map_index) for each in instances if each.state is SCHEDULED
    ]
    return Ready(dag, instances, starts)


def mapped(dag_id: str, count: int, pool: str = "default_pool", slots: int = 1) -> Ready:
    """Return a run of a DAG with one task, whose instances may all start."""
    work = task("work", over=[LiteralAxis(count)], pool=pool, pool_slots=slots)
    dag = DagSpec(dag_id=dag_id, file="f.py", tasks=(work,), max_active_tasks=1000)
    instances = [
        msgspec.structs.replace(
            one("work", SCHEDULED, index), scope=TaskScope(dag_id, "r1", "work", index)
        )
        for index in range(count)
    ]
    return Ready(dag, instances, [("work", index) for index in range(count)])


def start(limits: Limits, *runs: Ready) -> list[tuple[str, str, int]]:
    """Start what may start; return DAG, task and map index of each in order."""
    started = []
    for run, spec, instance in limits.choose(runs):
        limits.take(hash(instance.scope), run.dag.dag_id, spec)
        started.append((run.dag.dag_id, spec.task_id, instance.scope.map_index))
    return started


def test_only_as_many_tasks_run_as_the_dag_allows(store: SqlStore) -> None:
    instances = [one("a", RUNNING), *(one(name, SCHEDULED) for name in "bcd")]
    run = ready(*(task(name) for name in "abcd"), instances=instances, most=3)
    limits = Limits(store, 100)

    assert [name for _, name, _ in start(limits, run)] == ["b", "c"]
    assert limits.reasons(run) == {"d": "other tasks of its run: max_active_tasks is 3"}


def test_only_as_many_instances_of_a_task_run_as_it_allows(store: SqlStore) -> None:
    instances = [
        *(one("a", REMOVED), one("a", RUNNING, 0)),
        *(one("a", SCHEDULED, index) for index in (1, 2, 3)),
        one("b", SCHEDULED),
    ]
    run = ready(task("a", over=[LiteralAxis(4)], max_active=2), task("b"), instances=instances)
    limits = Limits(store, 100)

    assert start(limits, run) == [("etl", "a", 1), ("etl", "b", -1)]
    assert limits.reasons(run) == {"a": "its other instances: max_active_tis_per_dagrun is 2"}


def test_no_more_run_at_once_than_parallelism_allows(store: SqlStore) -> None:
    limits, run = Limits(store, 3), mapped("d", 10)

    first = start(limits, run)
    limits.give_back(hash(TaskScope("d", "r1", "work", 0)))
    then = start(limits, run)

    assert (len(first), len(then)) == (3, 1)
    assert limits.reasons(run) == {"work": "a free slot of its scheduler: runner.parallelism is 3"}


def test_a_dag_with_many_instances_leaves_room_for_the_others(store: SqlStore) -> None:
    limits, large, small = Limits(store, 4), mapped("large", 10_000), mapped("small", 3)

    assert [dag for dag, *_ in start(limits, large)] == ["large"] * 4
    order = []
    for index in range(4):
        limits.give_back(hash(TaskScope("large", "r1", "work", index)))
        order += [dag for dag, *_ in start(limits, large, small)]

    assert order == ["small", "small", "large", "large"]  # two each


def test_a_pool_limits_the_tasks_in_it_and_no_others(store: SqlStore) -> None:
    store.execute(c.SetPool(name="warehouse", slots=5))
    limits, pooled, other = Limits(store, 100), mapped("p", 9, "warehouse", 2), mapped("o", 9)

    started = [dag for dag, *_ in start(limits, pooled, other)]

    assert (started.count("p"), started.count("o")) == (2, 9)
    assert limits.reasons(pooled) == {"work": "2 free slots of pool `warehouse`, which has 5"}


@pytest.mark.parametrize(
    ("slots", "told"),
    [
        (None, "pool `warehouse`, which does not exist"),
        (0, "2 slots of pool `warehouse`, which has 0"),
        (1, "2 slots of pool `warehouse`, which has 1"),
    ],
)
def test_a_task_waits_for_a_pool_that_cannot_have_it(
    store: SqlStore, slots: int | None, told: str
) -> None:
    if slots is not None:
        store.execute(c.SetPool(name="warehouse", slots=slots))
    limits, run = Limits(store, 100), mapped("d", 1, "warehouse", 2)

    assert start(limits, run) == []
    assert limits.reasons(run) == {"work": told}


MANY = """
    import time
    from holdfast.sdk import DAG, task

    with DAG("{dag_id}", schedule="@once", max_active_tasks=100):

        @task({arguments})
        def work(number):
            time.sleep({seconds})

        work.expand(number=list(range({count})))
    """


def most_at_once(attempts: list[AttemptInfo]) -> int:
    """Return the largest number of attempts that ran at the same time."""
    changes = sorted(
        [(each.started_at, 1) for each in attempts]
        + [(each.ended_at, -1) for each in attempts if each.ended_at is not None]
    )
    running = [0]
    for _, change in changes:
        running.append(running[-1] + change)
    return max(running)


def attempts_of(project: Project, dag_id: str) -> list[AttemptInfo]:
    [run] = project.runs(dag_id)
    tasks = project.store.execute(c.ListTaskInstances(dag_id=dag_id, run_id=run.run_id))
    listed = [project.store.execute(c.ListAttempts(each.scope)) for each in tasks]
    return [attempt for attempts in listed for attempt in attempts]


def succeeded(project: Project, *dag_ids: str) -> bool:
    states = [run.state for dag_id in dag_ids for run in project.runs(dag_id)]
    return len(states) == len(dag_ids) and set(states) == {RunState.SUCCESS}


@pytest.mark.full
def test_a_scheduler_runs_no_more_tasks_at_once_than_its_limits_allow(project: Project) -> None:
    for dag_id, arguments in (("wide", ""), ("pooled", 'pool="narrow"'), ("missing", 'pool="x"')):
        text = MANY.format(dag_id=dag_id, arguments=arguments, seconds=0.5, count=5)
        project.write(f"dags/{dag_id}.py", text)
    assert project.holdfast("pools", "set", "narrow", "1").status == 0

    with project.service("scheduler", "dags", HOLDFAST__RUNNER__PARALLELISM="3"):
        wait_until(lambda: project.runs("missing"))
        [run] = project.runs("missing")
        wait_until(lambda: succeeded(project, "wide", "pooled"), timeout=60)
        wait_until(lambda: project.tasks("missing", run.run_id)["work[0]"].waits_for)
        [waiting] = {one.waits_for for one in project.tasks("missing", run.run_id).values()}
        assert project.holdfast("pools", "set", "x", "1").status == 0
        wait_until(lambda: succeeded(project, "missing"), timeout=60)

    wide, pooled = attempts_of(project, "wide"), attempts_of(project, "pooled")
    assert (len(wide), len(pooled)) == (5, 5)
    assert most_at_once(pooled) == 1
    assert most_at_once(wide + pooled) == 3
    assert waiting == "pool `x`, which does not exist"
    log = project.read("scheduler.err")
    assert log.count("work waits for pool `x`, which does not exist") == 1


@pytest.mark.full
def test_two_schedulers_share_the_slots_of_a_pool(project: Project) -> None:
    names = [f"d{number}" for number in range(4)]
    for name in names:
        text = MANY.format(dag_id=name, arguments='pool="shared"', seconds=0.3, count=4)
        project.write(f"{'one' if name < 'd2' else 'two'}/{name}.py", text)
    assert project.holdfast("pools", "set", "shared", "2").status == 0

    with project.service("scheduler", "one"), project.service("scheduler", "two"):
        wait_until(lambda: succeeded(project, *names), timeout=120)

    attempts = [each for name in names for each in attempts_of(project, name)]
    assert len(attempts) == 16
    assert most_at_once(attempts) == 2


@pytest.mark.full
def test_a_run_in_an_unknown_pool_is_an_error_at_the_start(project: Project) -> None:
    text = MANY.format(dag_id="d", arguments='pool="warehouse", pool_slots=2', seconds=0, count=1)

    missing = project.run_dag(text)
    assert project.holdfast("pools", "set", "warehouse", "1").status == 0
    small = project.run_dag(text)

    assert (missing.status, small.status) == (1, 1)
    assert missing.err == (
        "error: task `work` of DAG `d` is in pool `warehouse`, which does not exist\n"
        "hint: create it: `holdfast pools set warehouse SLOTS`\n"
    )
    assert "needs 2 slots of pool `warehouse`, which has 1" in small.err
