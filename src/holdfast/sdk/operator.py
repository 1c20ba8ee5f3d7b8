"""Operators: tasks as classes."""

from __future__ import annotations

import inspect
from abc import ABCMeta
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, Unpack

from holdfast.errors import InvalidDag
from holdfast.sdk.arguments import KNOWN, TaskArguments, settle
from holdfast.sdk.dag import DAG, current_dag
from holdfast.sdk.node import TaskNode
from holdfast.sdk.reference import references_in, resolve

if TYPE_CHECKING:
    from holdfast.sdk.context import Context
    from holdfast.sdk.mapped import Partial


class OperatorMeta(ABCMeta):
    """Applies `default_args` to the arguments of every operator, including subclasses."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if args:
            raise InvalidDag(
                f"{cls.__name__} takes keyword arguments only",
                hint='write task_id="…", for example',
            )
        return super().__call__(**with_defaults(cls, kwargs))


def with_defaults(operator: type, given: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments, with the DAG's defaults for others that the operator takes."""
    given = dict(given)
    dag = given.setdefault("dag", current_dag())
    defaults = {**(dag.default_args if dag else {}), **(given.pop("default_args", None) or {})}
    taken = arguments_of(operator)
    return {**{name: value for name, value in defaults.items() if name in taken}, **given}


@cache
def arguments_of(operator: type) -> frozenset[str]:
    """Return the names of all arguments that the class and its bases take."""
    names = set(KNOWN)
    for kind in operator.__mro__:
        if "__init__" in vars(kind) and kind is not object:
            names.update(inspect.signature(vars(kind)["__init__"]).parameters)
    return frozenset(names - {"self", "args", "kwargs", "arguments"})


class BaseOperator(TaskNode, metaclass=OperatorMeta):
    """A task as a class: subclasses do their work in `execute(context)`."""

    template_fields: Sequence[str] = ()
    """Attributes that Airflow renders; a template in one of them is refused."""
    template_ext: Sequence[str] = ()

    def __init__(
        self,
        *,
        task_id: str,
        dag: DAG | None = None,
        default_args: dict[str, Any] | None = None,
        **arguments: Unpack[TaskArguments],
    ) -> None:
        super().__init__()
        self._enter(task_id, dag, settle(f"task `{task_id}`", arguments))

    @classmethod
    def partial(cls, **arguments: Any) -> Partial:
        """Set the arguments that all instances of a mapped task share; `expand` makes the task."""
        from holdfast.sdk.mapped import Partial

        return Partial(cls, with_defaults(cls, arguments))

    @classmethod
    def _filled(cls, shared: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments of one instance of a mapped task."""
        return {**shared, **values}

    @classmethod
    def _templated_in(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        """Yield those of the given arguments in which Airflow renders templates."""
        return ((name, value) for name, value in given.items() if name in cls.template_fields)

    def _templated(self) -> Iterator[tuple[str, Any]]:
        return self._templated_in(
            {name: getattr(self, name, None) for name in self.template_fields}
        )

    @property
    def _template_endings(self) -> tuple[str, ...]:
        return tuple(self.template_ext)

    def _prepared(self, context: Context) -> BaseOperator:
        for name, value in list(vars(self).items()):
            if next(references_in(value), None) is not None:
                setattr(self, name, resolve(value, context))
        return self

    def execute(self, context: Context) -> Any:
        """Do the work and return the task's result, which is JSON. May be `async`."""
        raise NotImplementedError(f"{type(self).__name__} does not implement execute(context)")

    def pre_execute(self, context: Context) -> None:
        """Prepare the work; called before `execute`."""

    def post_execute(self, context: Context, result: Any = None) -> None:
        """Finish the work; called after `execute`, with its result."""

    def on_kill(self) -> None:
        """End what the task has started elsewhere; called when it is stopped from outside."""
