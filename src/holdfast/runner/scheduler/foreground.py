"""`holdfast run`: one run of a file's DAG, from its start, or from where it stopped, to its end."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

from holdfast import commands as c
from holdfast.actions.runs import manual_run
from holdfast.errors import InvalidDag, InvalidInput, NotFound, StaleAttempt, UnreadableValue
from holdfast.model.dag import DagSpec
from holdfast.model.run import Run, RunState, TaskInstance, TaskState
from holdfast.model.scope import TaskScope
from holdfast.model.value import decode_entry
from holdfast.runner.scheduler.conductor import ActiveRun, Conductor
from holdfast.runner.scheduler.journal import Journal
from holdfast.runner.scheduler.limits import check_pools
from holdfast.settings import Settings
from holdfast.spark.session import progress as spark_progress
from holdfast.store import Store

REFRESH = 0.25


class View(Protocol):
    """A display of a run's progress."""

    def update(
        self, run: Run, tasks: list[TaskInstance], progress: Mapping[TaskScope, Any]
    ) -> None: ...


class LocalRun:
    """A run carried out by this process. Use it in a `with` statement: leaving it stops the run."""

    def __init__(self, settings: Settings, file: Path) -> None:
        if not file.is_file():
            raise NotFound(f"there is no file {file}", hint="give the path of a DAG file")
        self._settings = settings
        self._file = os.path.abspath(file)
        self._conductor = Conductor(settings, Journal(logged=False))

    def __enter__(self) -> LocalRun:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Ask the tasks to end, and release the run."""
        self._conductor.close()

    def abandon(self) -> None:
        """Kill the supervisor at once, without notice to the tasks."""
        self._conductor.abandon()

    def load(self, dag_id: str | None) -> DagSpec:
        """Import and save all DAGs of the file; return the only one, or the one with `dag_id`.

        Raise InvalidDag if the file is broken or has no DAG, InvalidInput if `dag_id` is needed,
        NotFound if there is no such DAG, and what `check_pools` raises.
        """
        self._conductor.parse(self._file)
        while not (parsed := self._conductor.parsed()):
            self._conductor.turn(REFRESH)
        found = parsed[0].parsed
        if found.error:
            raise InvalidDag(found.error)
        dag = _choose(found.dags, dag_id, self._file)
        check_pools(self._conductor.store, dag)
        if any(task.spark for task in dag.tasks):
            from holdfast.spark.session.check import check

            check(self._settings)
            self._conductor.warm_spark()
        self._save(found.dags)
        return dag

    def _save(self, dags: tuple[DagSpec, ...]) -> None:
        """Save DAGs under the name that a scheduler has for the file, its path inside a directory,
        if one knows it, and under the file's own name otherwise."""
        ids = {dag.dag_id for dag in dags}
        path = Path(self._file)
        known = self._conductor.store.execute(c.ListDags())
        names = [info.file for info in known if info.dag_id in ids and _ends_with(path, info.file)]
        self._conductor.store.execute(c.SaveFile((names or [path.name])[0], dags))

    def begin(self, dag: DagSpec, run_id: str | None, conf: str | None) -> Run:
        """Return a new run, or the one with that id, and hold it unless it has ended.

        Raise InvalidInput if there is a `conf` for a run that exists.
        """
        run, store = None, self._conductor.store
        if run_id is not None:
            with suppress(NotFound):
                run = store.execute(c.GetRun(dag.dag_id, run_id))
        if run is None:
            run = store.execute(manual_run(dag.dag_id, datetime.now(UTC), run_id, conf or "{}"))
        elif conf is not None:
            raise InvalidInput(
                f"run `{run_id}` exists already, with its own conf",
                hint="leave out --conf to resume it",
            )
        if not run.state.ended:
            self._active = self._conductor.adopt(run, dag)
        return run

    def carry_on(self, view: View) -> RunState:
        """Carry out the run and its callbacks to the end, and return the final state.

        Raise StaleAttempt if the run was lost to another process.
        """
        active, store = self._active, self._conductor.store
        dag_id, run_id = active.key
        while active.key in self._conductor.runs:
            self._conductor.turn(REFRESH)
            view.update(active.run, self._in_order(active.tasks), self._progress(active))
        ended = store.execute(c.GetRun(dag_id, run_id))
        if not ended.state.ended:
            raise StaleAttempt(
                f"run `{ended.run_id}` is now run by {ended.owner or 'no process'}",
                hint="that process continues it",
            )
        tasks = store.execute(c.ListTaskInstances(dag_id=dag_id, run_id=run_id))
        view.update(ended, self._in_order(tasks), {})
        while self._conductor.calls_back:
            self._conductor.turn(REFRESH)
        self._conductor.alerting.deliver_newest()
        return ended.state

    def _in_order(self, tasks: Iterable[TaskInstance]) -> list[TaskInstance]:
        """Return the tasks in the order of the DAG, and not by name."""
        places = {task.task_id: place for place, task in enumerate(self._active.dag.tasks)}
        return sorted(tasks, key=lambda one: places.get(one.scope.task_id, len(places)))

    def _progress(self, active: ActiveRun) -> dict[TaskScope, Any]:
        """Return the progress of running tasks: the author's own entry, or else that of Spark."""
        store: Store = self._conductor.store
        running = any(one.state is TaskState.RUNNING for one in active.tasks)
        if not running or not store.supports(c.List):
            return {}
        where = c.TaskFilter(*active.key)
        found: dict[TaskScope, Any] = {}
        for key in (spark_progress.KEY, "progress"):
            for one in store.execute(c.List(where, prefix=key)).found:
                if one.entry.key == key and isinstance(one.scope, TaskScope):
                    with suppress(UnreadableValue):  # the run goes on without it
                        found[one.scope] = decode_entry(one.entry.value, f"`{key}` of {one.scope}")
        return found


def _ends_with(path: Path, name: str) -> bool:
    parts = Path(name).parts
    return bool(parts) and path.parts[-len(parts) :] == parts


def _choose(dags: tuple[DagSpec, ...], dag_id: str | None, file: str) -> DagSpec:
    if not dags:
        raise InvalidDag(
            f"{file} defines no DAG",
            hint="a DAG is made by `with DAG(…)`, by calling a function decorated with @dag, or by "
            "@asset",
        )
    ids = [dag.dag_id for dag in dags]
    if dag_id is None and len(dags) > 1:
        raise InvalidInput(
            f"{file} has {len(dags)} DAGs", hint=f"choose one: --dag-id {' | '.join(ids)}"
        )
    if dag_id not in (None, *ids):
        raise NotFound(f"{file} has no DAG `{dag_id}`", hint=f"it has: {', '.join(ids)}")
    return dags[ids.index(dag_id) if dag_id else 0]
