"""DAGs: tasks, their dependencies and their schedule."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta
from functools import wraps
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, Self, TypedDict, Unpack

import msgspec

from holdfast.errors import InvalidDag
from holdfast.model.dag import DagSpec, TaskSpec, WatcherSpec
from holdfast.sdk.arguments import Callbacks, callbacks, count, duration, refuse
from holdfast.sdk.asset import Asset, AssetWatcher
from holdfast.sdk.node import TaskNode, check_name
from holdfast.sdk.param import as_params, defaults
from holdfast.sdk.reference import DagParam
from holdfast.sdk.schedule import as_schedule, assets_of, in_utc
from holdfast.sdk.templates import refuse_templates


class DagArguments(TypedDict, total=False):
    """The arguments of a DAG.

    Those after `params` have no effect here: the first group is accepted so that pipelines written
    for Airflow need not drop them, the second only while it asks for nothing.
    """

    description: str | None
    schedule: Any
    start_date: datetime | None
    end_date: datetime | None
    catchup: bool
    default_args: Mapping[str, Any] | None
    max_active_tasks: int
    max_active_runs: int
    dagrun_timeout: timedelta | None
    on_success_callback: Callbacks
    on_failure_callback: Callbacks
    is_paused_upon_creation: bool | None
    doc_md: str | None
    tags: Iterable[str]
    params: Mapping[str, Any] | None

    dag_display_name: str | None
    access_control: Any
    owner_links: Any
    auto_register: bool
    template_undefined: Any
    render_template_as_native_obj: bool
    disable_bundle_versioning: bool
    rerun_with_latest_version: bool | None

    template_searchpath: Any
    user_defined_macros: Any
    user_defined_filters: Any
    jinja_environment_kwargs: Any
    max_consecutive_failed_dag_runs: int
    deadline: Any
    fail_fast: bool
    allowed_run_types: Any


_NO_TEMPLATES = "templates are not rendered; use the context, such as ds or params, in the task"

_ONLY_WHEN_EMPTY = {
    "template_searchpath": _NO_TEMPLATES,
    "user_defined_macros": _NO_TEMPLATES,
    "user_defined_filters": _NO_TEMPLATES,
    "jinja_environment_kwargs": _NO_TEMPLATES,
    "max_consecutive_failed_dag_runs": "pause the DAG in its on_failure_callback",
    "deadline": "use dagrun_timeout",
    "fail_fast": "a task does not start anyway if an upstream task has failed",
    "allowed_run_types": "leave it out",
}

LONGEST_DESCRIPTION: Final = 5_000
LONGEST_DOC: Final = 100_000
"""Maximum characters of `description` and `doc_md`."""

made: list[DAG] = []
"""Every DAG of this process, in the order in which they were made."""

_entered: list[DAG] = []


def current_dag() -> DAG | None:
    """Return the DAG of the current `with` block; None outside of one."""
    return _entered[-1] if _entered else None


class DAG:
    """A set of tasks that run together. Tasks made in its `with` block belong to it."""

    def __init__(self, dag_id: str, **arguments: Unpack[DagArguments]) -> None:
        check_name("dag_id", dag_id)
        self._where = where = f"DAG `{dag_id}`"
        refuse(where, arguments, DagArguments.__annotations__, _ONLY_WHEN_EMPTY)
        self.dag_id = dag_id
        self.default_args = dict(arguments.get("default_args") or {})
        self.description = arguments.get("description") or ""
        self.doc_md = arguments.get("doc_md") or ""
        self.tags = _tags(where, arguments.get("tags") or ())
        self.params = as_params(where, arguments.get("params"))
        first = arguments.get("start_date") or self.default_args.get("start_date")
        last = arguments.get("end_date") or self.default_args.get("end_date")
        self.start_date = in_utc(where, "start_date", first)
        self.end_date = in_utc(where, "end_date", last)
        self.schedule = arguments.get("schedule")
        self.catchup = bool(arguments.get("catchup", False))
        self.max_active_tasks = count(
            where, "max_active_tasks", arguments.get("max_active_tasks", 16), least=1
        )
        self.max_active_runs = count(
            where, "max_active_runs", arguments.get("max_active_runs", 16), least=1
        )
        timeout = arguments.get("dagrun_timeout")
        self.dagrun_timeout = timeout and duration(where, "dagrun_timeout", timeout)
        self.is_paused_upon_creation = bool(arguments.get("is_paused_upon_creation"))
        self.callbacks = callbacks(where, arguments)
        self.module = _module_that_runs()
        self._schedule = as_schedule(where, self.schedule, first.tzinfo if first else None)
        self._tasks: dict[str, TaskNode] = {}
        made.append(self)

    def __repr__(self) -> str:
        return f"<DAG: {self.dag_id}>"

    def __enter__(self) -> Self:
        _entered.append(self)
        return self

    def __exit__(self, *exception: object) -> None:
        _entered.pop()

    @property
    def tasks(self) -> list[TaskNode]:
        """Every task, in the order in which they were made."""
        return list(self._tasks.values())

    @property
    def task_ids(self) -> list[str]:
        return list(self._tasks)

    @property
    def task_dict(self) -> dict[str, TaskNode]:
        return dict(self._tasks)

    def get_task(self, task_id: str) -> TaskNode:
        """Return the task with that id. Raise InvalidDag if there is none."""
        if task_id not in self._tasks:
            raise InvalidDag(
                f"{self._where} has no task `{task_id}`",
                hint=f"it has {', '.join(self._tasks) or 'none'}",
            )
        return self._tasks[task_id]

    def add_task(self, task: TaskNode) -> None:
        """Add a task to this DAG. Raise InvalidDag if another task has its id."""
        if self._tasks.setdefault(task.task_id, task) is not task:
            raise InvalidDag(
                f"{self._where} has two tasks with the id `{task.task_id}`",
                hint="give one of them another task_id",
            )
        task.dag = self

    def free_id(self, task_id: str) -> str:
        """Return the id or, if it is taken, the first free one of `id__1`, `id__2` and so on."""
        number, free = 0, task_id
        while free in self._tasks:
            number += 1
            free = f"{task_id}__{number}"
        return free

    def param(self, name: str, default: Any = None) -> DagParam:
        """Add a param, and return a reference to it for the arguments of tasks.

        The value that a run is started with replaces the default.
        """
        self.params |= as_params(self._where, {name: default})
        return DagParam(name)

    @property
    def watchers(self) -> list[tuple[Asset, AssetWatcher]]:
        """The watchers of the assets that the DAG names. Raise InvalidDag for duplicate names."""
        found: dict[tuple[Asset, str], AssetWatcher] = {}
        for asset in self._assets():
            for watcher in asset.watchers:
                if found.setdefault((asset, watcher.name), watcher) is not watcher:
                    raise InvalidDag(
                        f"asset `{asset.name}` has two watchers with the name `{watcher.name}`"
                    )
        return [(asset, watcher) for (asset, _), watcher in found.items()]

    def _assets(self) -> Iterable[Asset]:
        for part in assets_of(self.schedule):
            yield from part.assets
        for task in self.tasks:
            for one in (*task.inlets, *task.outlets):
                yield from one.assets

    def spec(self, file: str) -> DagSpec:
        """Return the DAG as a serializable value.

        Raise InvalidDag if its tasks form a cycle, if an argument of one is a template, or if a
        text is too long.
        """
        for task in self.tasks:
            refuse_templates(task)
        return DagSpec(
            dag_id=self.dag_id,
            file=file,
            tasks=tuple(_task_spec(task) for task in self._in_order()),
            schedule=self._schedule,
            start_date=self.start_date,
            end_date=self.end_date,
            catchup=self.catchup,
            max_active_tasks=self.max_active_tasks,
            max_active_runs=self.max_active_runs,
            run_timeout=self.dagrun_timeout,
            paused_at_first=self.is_paused_upon_creation,
            params=msgspec.json.encode(defaults(self.params)).decode(),
            description=_text(self._where, "description", self.description, LONGEST_DESCRIPTION),
            doc_md=inspect.cleandoc(_text(self._where, "doc_md", self.doc_md, LONGEST_DOC)),
            tags=self.tags,
            callbacks=frozenset(self.callbacks),
            watchers=tuple(
                WatcherSpec(asset.spec, watcher.name) for asset, watcher in self.watchers
            ),
        )

    def _in_order(self) -> list[TaskNode]:
        """Return the tasks in topological order. Raise InvalidDag if they form a cycle."""
        graph = {task.task_id: [up.task_id for up in task._upstream] for task in self.tasks}
        try:
            return [self._tasks[task_id] for task_id in TopologicalSorter(graph).static_order()]
        except CycleError as error:
            circle = " >> ".join(error.args[1])
            raise InvalidDag(
                f"{self._where}: its tasks depend on each other in a cycle: {circle}",
                hint="remove one of these dependencies",
            ) from None


def _tags(where: str, value: Any) -> tuple[str, ...]:
    tags = [value] if isinstance(value, str) else list(value)
    for tag in tags:
        if not isinstance(tag, str):
            raise InvalidDag(f"{where}: {tag!r} is among its tags", hint="use text for tags")
    return tuple(sorted(set(tags)))


def _text(where: str, name: str, text: Any, most: int) -> str:
    """Return a text that is shown in lists and pages. Raise InvalidDag where it is too long."""
    if not isinstance(text, str):
        raise InvalidDag(f"{where}: {name} must be text, not {type(text).__name__}")
    if len(text) > most:
        raise InvalidDag(
            f"{where}: {name} has {len(text):,} characters; the limit is {most:,}",
            hint="shorten it, and link to the rest",
        )
    return text


def _task_spec(task: TaskNode) -> TaskSpec:
    settings = task._settings
    return TaskSpec(
        task_id=task.task_id,
        operator=task._kind,
        upstream=tuple(up.task_id for up in task._upstream),
        trigger_rule=settings.trigger_rule,
        retries=settings.retries,
        retry_delay=settings.retry_delay,
        retry_backoff=settings.retry_backoff,
        max_retry_delay=settings.max_retry_delay,
        execution_timeout=settings.execution_timeout,
        max_active=settings.max_active,
        pool=settings.pool,
        pool_slots=settings.pool_slots,
        spark=task.uses_spark,
        mapped=task._mapped,
        inlets=settings.inlet_specs,
        outlets=settings.outlet_specs,
        callbacks=frozenset(settings.callbacks),
        doc_md=inspect.cleandoc(
            _text(f"task `{task.task_id}`", "doc_md", settings.doc_md, LONGEST_DOC)
        ),
    )


def _module_that_runs() -> str:
    """Return the module whose import makes the DAG, even if by a function of another module."""
    frame = sys._getframe(1)
    while frame.f_code.co_name != "<module>" and frame.f_back is not None:
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


DAG_FUNCTION: Final = "_holdfast_dag_function"
"""An attribute of the functions that `@dag` decorates."""


def dag(
    dag_id: str | Callable[..., Any] = "", **arguments: Unpack[DagArguments]
) -> Callable[..., Any]:
    """Decorate a function that makes a DAG of its tasks when called. Its arguments are params."""

    def decorate(function: Callable[..., Any]) -> Callable[..., DAG]:
        @wraps(function)
        def make(*args: Any, **kwargs: Any) -> DAG:
            given = inspect.signature(function).bind(*args, **kwargs)
            given.apply_defaults()
            name = dag_id if isinstance(dag_id, str) and dag_id else function.__name__
            with DAG(name, **arguments) as made_dag:
                made_dag.doc_md = made_dag.doc_md or function.__doc__ or ""
                function(
                    **{key: made_dag.param(key, value) for key, value in given.arguments.items()}
                )
            return made_dag

        vars(make)[DAG_FUNCTION] = True
        return make

    return decorate(dag_id) if callable(dag_id) else decorate
