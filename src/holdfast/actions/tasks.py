"""Selection of task instances of a run: one, those to be cleared, and those to be marked."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import TypeAlias

import msgspec

from holdfast import commands as c
from holdfast.errors import InvalidInput, NotFound
from holdfast.model.dag import spec_of
from holdfast.model.entry import Writer
from holdfast.model.run import Run, RunState, TaskInstance, TaskState
from holdfast.model.scope import TaskScope
from holdfast.store import Steps

FAILURES = (TaskState.FAILED, TaskState.UPSTREAM_FAILED)
MOST_READ = 1000
"""How many task instances are read to list the existing ones in an error."""

Name: TypeAlias = tuple[str, int | None]
"""A task id, with one map index or all of them."""


def find(dag_id: str, run_id: str, task_id: str, map_index: int | None) -> Steps[TaskInstance]:
    """Return the task instance of that name; an index is needed only where there are several. Raise
    NotFound, or InvalidInput where the index is missing."""
    found = yield from _instances(dag_id, run_id, task_id, map_index)
    if len(found) > 1:
        indices = f"{found[0].scope.map_index} to {found[-1].scope.map_index}"
        raise InvalidInput(
            f"task `{task_id}` of run `{run_id}` of `{dag_id}` is mapped",
            hint=f"give a map index: {indices}",
        )
    return found[0]


def _instances(
    dag_id: str, run_id: str, task_id: str, map_index: int | None
) -> Steps[list[TaskInstance]]:
    """Return the instances of that name. Raise NotFound where there is none."""
    yield c.GetRun(dag_id, run_id)
    listed = yield c.ListTaskInstances(
        dag_id=dag_id, run_id=run_id, task_id=task_id, map_index=map_index
    )
    found: list[TaskInstance] = _present(listed)
    if not found:
        some = c.ListTaskInstances(dag_id=dag_id, run_id=run_id, limit=MOST_READ)
        alike = _present((yield msgspec.structs.replace(some, task_id=task_id)))
        known = alike or _present((yield some))
        raise _not_there(dag_id, run_id, task_id, map_index, known)
    return found


def mark(
    dag_id: str,
    run_id: str,
    task_id: str,
    map_index: int | None,
    *,
    state: TaskState,
    writer: Writer,
    clear: bool,
) -> Steps[list[TaskInstance]]:
    """Mark all instances of a task, or the one with the map index, and return them. Raise NotFound
    where there is none, and InvalidInput for an external run."""
    yield from _instances(dag_id, run_id, task_id, map_index)
    yield c.MarkTask(
        scope=TaskScope(dag_id, run_id, task_id, -1 if map_index is None else map_index),
        state=state,
        writer=writer,
        clear=clear,
        all_map_indices=map_index is None,
    )
    return (yield from _instances(dag_id, run_id, task_id, map_index))


class Choice(msgspec.Struct, frozen=True):
    """The tasks to clear, or the run as a whole."""

    tasks: tuple[Name, ...]
    """The tasks, as `ClearTasks` takes them."""
    concerned: tuple[TaskInstance, ...]
    """The task instances that these include, in their present state."""
    whole_run: bool = False
    """The run has ended without any task: it is queued again as it is."""

    @property
    def empty(self) -> bool:
        return not (self.concerned or self.whole_run)


def choose(
    dag_id: str,
    run_id: str,
    tasks: Sequence[Name],
    *,
    failed: bool,
    downstream: bool,
) -> Steps[Choice]:
    """Choose from the named tasks, or from all where none is named: all, or those that failed; and
    with `downstream`, also all tasks after them. Of a run that has ended without any task, choose
    the whole; with `failed`, if the run has failed."""
    run: Run = yield c.GetRun(dag_id, run_id)
    known = _present((yield c.ListTaskInstances(dag_id=dag_id, run_id=run_id)))
    if not known and run.state.ended:
        if tasks:
            missing = f"run `{run_id}` of `{dag_id}` has no task `{tasks[0][0]}`"
            raise NotFound(
                f"{missing}: it has ended without any",
                hint="name no task, and the run is queued again",
            )
        return Choice((), (), whole_run=run.state is RunState.FAILED or not failed)
    there = {name for one in known for name in _names(one)}
    for task_id, map_index in tasks:
        if (task_id, map_index) not in there:
            raise _not_there(dag_id, run_id, task_id, map_index, known)
    wanted = dict.fromkeys(tasks or ((task_id, None) for task_id in _ids(known)))
    if failed:
        broken = [one for one in _meant(known, wanted) if one.state in FAILURES]
        wanted = dict.fromkeys((one.scope.task_id, one.scope.map_index) for one in broken)
    if downstream:
        wanted |= dict.fromkeys((yield from _downstream(dag_id, wanted)))
    return Choice(tuple(wanted), tuple(_meant(known, wanted)))


def _downstream(dag_id: str, wanted: Iterable[Name]) -> Steps[list[Name]]:
    """Return the tasks downstream of these; relies on the topological order of a DAG's tasks."""
    reached = {task_id for task_id, _ in wanted}
    after: list[Name] = []
    for task in spec_of((yield c.GetDag(dag_id))).tasks:
        if not reached.isdisjoint(task.upstream):
            reached.add(task.task_id)
            after.append((task.task_id, None))
    return after


def _present(listed: Iterable[TaskInstance]) -> list[TaskInstance]:
    return [one for one in listed if one.state is not TaskState.REMOVED]


def _names(one: TaskInstance) -> tuple[Name, Name]:
    """Return both names of a task instance: with all others of its task, and alone."""
    return (one.scope.task_id, None), (one.scope.task_id, one.scope.map_index)


def _meant(known: Iterable[TaskInstance], wanted: Container[Name]) -> list[TaskInstance]:
    return [one for one in known if any(name in wanted for name in _names(one))]


def _ids(known: Iterable[TaskInstance]) -> list[str]:
    return list(dict.fromkeys(one.scope.task_id for one in known))


def _not_there(
    dag_id: str,
    run_id: str,
    task_id: str,
    map_index: int | None,
    known: Sequence[TaskInstance],
) -> NotFound:
    indices = [one.scope.map_index for one in known if one.scope.task_id == task_id]
    if indices:
        return NotFound(
            f"task `{task_id}` of run `{run_id}` of `{dag_id}` has no map index {map_index}",
            hint=f"it has: {_first(indices)}",
        )
    return NotFound(
        f"run `{run_id}` of `{dag_id}` has no task `{task_id}`",
        hint=f"it has: {_first(_ids(known))}" if known else "it has not started",
    )


def _first(names: Sequence[object]) -> str:
    return ", ".join(str(name) for name in names[:10]) + (", …" if len(names) > 10 else "")
