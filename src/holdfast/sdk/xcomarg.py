"""Reference to the result of a task in the arguments of another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from holdfast.errors import InvalidDag
from holdfast.model.run import RETURN_VALUE
from holdfast.sdk.dependency import Dependency
from holdfast.sdk.reference import Reference

if TYPE_CHECKING:
    from holdfast.sdk.context import Context
    from holdfast.sdk.node import TaskNode


class XComArg(Dependency, Reference):
    """The future result of a task.

    `XComArg(task, key)` and `result["key"]` are the value that the task pushes under that key or,
    if it pushes none, that part of its return value. Further subscripts are parts of that.
    """

    def __init__(
        self, operator: TaskNode, key: str = RETURN_VALUE, *, path: tuple[str | int, ...] = ()
    ) -> None:
        self.operator = operator
        self.path = path if key == RETURN_VALUE else (key, *path)

    @property
    def _node(self) -> TaskNode:
        return self.operator

    def __getitem__(self, key: str | int) -> XComArg:
        if not isinstance(key, str | int):
            raise InvalidDag(
                f"{self}[{key!r}]: the index of a result must be text or an integer",
                hint="do this in the task that takes the result",
            )
        return XComArg(self.operator, path=(*self.path, key))

    def __iter__(self) -> NoReturn:
        raise InvalidDag(
            f"{self} is not known until the task has run, so it cannot be iterated here",
            hint="iterate in the task that takes it, or use expand()",
        )

    def __str__(self) -> str:
        return f"the result of task `{self.operator.task_id}`" + "".join(
            f"[{key!r}]" for key in self.path
        )

    def __repr__(self) -> str:
        return f"XComArg(<{self.operator.task_id}>{''.join(f'[{k!r}]' for k in self.path)})"

    def resolve(self, context: Context) -> Any:
        return context["ti"].results.of(self)
