"""Node of a DAG: a task, mapped or not."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from holdfast.errors import InvalidDag
from holdfast.model.dag import MappedSpec
from holdfast.portable.identifier import check_id
from holdfast.sdk.arguments import TaskSettings
from holdfast.sdk.asset import Asset, AssetAlias, AssetRef
from holdfast.sdk.dependency import Dependency
from holdfast.sdk.reference import Reference, references_in
from holdfast.sdk.xcomarg import XComArg

if TYPE_CHECKING:
    from holdfast.sdk.context import Context
    from holdfast.sdk.dag import DAG
    from holdfast.sdk.operator import BaseOperator
    from holdfast.sdk.param import Param


class TaskNode(Dependency):
    """A task: its id, its DAG, its settings, and its upstream tasks."""

    uses_spark = False
    """Whether the task has `context["spark"]` when it runs."""

    _label: ClassVar[str] = ""
    """The kind of operator for display; by default the name of its class."""

    task_id: str
    dag: DAG | None
    _settings: TaskSettings

    def _enter(self, task_id: str, dag: DAG | None, settings: TaskSettings) -> None:
        check_name("task_id", task_id)
        self.task_id = task_id
        self.dag = None
        self._settings = settings
        self._followed: dict[int, TaskNode] = {}
        if dag is not None:
            dag.add_task(self)

    @property
    def _node(self) -> TaskNode:
        return self

    @property
    def _kind(self) -> str:
        return self._label or type(self).__name__

    @property
    def _mapped(self) -> MappedSpec | None:
        return None

    def _templated(self) -> Iterator[tuple[str, Any]]:
        """Yield the arguments in which Airflow renders templates."""
        raise NotImplementedError

    @property
    def _template_endings(self) -> tuple[str, ...]:
        """The suffixes of such an argument that make Airflow read its text from a file."""
        raise NotImplementedError

    def _references(self) -> Iterator[Reference]:
        """Yield the references in the task's arguments."""
        for value in vars(self).values():
            yield from references_in(value)

    def _follow(self, other: TaskNode) -> None:
        """Make this task wait for another. Raise InvalidDag if they are in different DAGs."""
        for one, dag in ((self, other.dag), (other, self.dag)):
            if one.dag is None and dag is not None:
                dag.add_task(one)
        check_same_dag(other, self)
        self._followed[id(other)] = other

    @property
    def _upstream(self) -> list[TaskNode]:
        """The tasks that it waits for, by `>>` and by its arguments, in the order of the DAG."""
        found = dict(self._followed)
        for reference in self._references():
            if isinstance(reference, XComArg):
                check_same_dag(reference.operator, self)
                found[id(reference.operator)] = reference.operator
        tasks = self.dag.tasks if self.dag else list(found.values())
        return [task for task in tasks if id(task) in found]

    def _prepared(self, context: Context) -> BaseOperator:
        """Return the operator to execute, with the references in its arguments resolved."""
        raise NotImplementedError

    @property
    def dag_id(self) -> str:
        return self.dag.dag_id if self.dag else ""

    @property
    def output(self) -> XComArg:
        """The result of the task, for the arguments of other tasks."""
        return XComArg(self)

    @property
    def upstream_task_ids(self) -> set[str]:
        return {task.task_id for task in self._upstream}

    @property
    def downstream_task_ids(self) -> set[str]:
        tasks = self.dag.tasks if self.dag else []
        return {task.task_id for task in tasks if self in task._upstream}

    @property
    def inlets(self) -> list[Asset | AssetRef | AssetAlias]:
        return self._settings.inlets

    @property
    def outlets(self) -> list[Asset | AssetRef | AssetAlias]:
        return self._settings.outlets

    @property
    def log(self) -> logging.Logger:
        return logging.getLogger("holdfast.task")

    def __repr__(self) -> str:
        return f"<Task({self._kind}): {self.task_id}>"


def settings_of(task: TaskNode) -> TaskSettings:
    """Return the settings of a task.

    This and the following are functions: an author's operator may have attributes of these names.
    """
    return task._settings


def params_of(task: TaskNode) -> dict[str, Param]:
    """Return the params that apply to a task: its own, over those of its DAG."""
    return {**(task.dag.params if task.dag else {}), **task._settings.params}


def prepare(task: TaskNode, context: Context) -> BaseOperator:
    """Return the operator to execute for a task instance, with its references resolved."""
    return task._prepared(context)


def check_same_dag(before: TaskNode, after: TaskNode) -> None:
    if before.dag is not after.dag:
        raise InvalidDag(
            f"task `{after.task_id}` of {_dag_of(after)} cannot depend on task "
            f"`{before.task_id}` of {_dag_of(before)}",
            hint="put both in one DAG, or schedule the second DAG on an asset of the first",
        )


def _dag_of(task: TaskNode) -> str:
    return f"DAG `{task.dag.dag_id}`" if task.dag else "no DAG"


def check_name(what: str, name: Any) -> None:
    """Raise InvalidDag for a name that cannot be the id of a DAG or task."""
    try:
        check_id(what, name)
    except (ValueError, TypeError) as error:
        raise InvalidDag(str(error)) from None
    if not re.fullmatch(r"[\w.-]+", name):
        raise InvalidDag(
            f"{what} is {name!r}", hint="use letters, digits, underscores, dots and dashes"
        )
