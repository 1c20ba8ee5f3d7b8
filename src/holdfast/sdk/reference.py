"""Values in a task's arguments that are known only when it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.sdk.context import Context


class Reference(ABC):
    """Stands in a task's arguments for a value of the run."""

    @abstractmethod
    def resolve(self, context: Context) -> Any:
        """The value, for the task that runs."""


def references_in(value: Any) -> Iterator[Reference]:
    """The references in a value, or in lists and dicts of it."""
    if isinstance(value, Reference):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from references_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from references_in(item)


def resolve(value: Any, context: Context) -> Any:
    """The value with what the references stand for; the same object where there are none."""
    if next(references_in(value), None) is None:
        return value
    if isinstance(value, Reference):
        return value.resolve(context)
    if isinstance(value, dict):
        return {name: resolve(item, context) for name, item in value.items()}
    return type(value)([resolve(item, context) for item in value])


class DagParam(Reference):
    """A param of the DAG, as the function that makes the DAG has it for its argument."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"DagParam({self.name!r})"

    def resolve(self, context: Context) -> Any:
        return context["params"][self.name]
