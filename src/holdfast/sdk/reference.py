"""References in a task's arguments to values that are known only when it runs."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.sdk.context import Context


class Reference(ABC):
    """A placeholder in a task's arguments for a value of the run."""

    @abstractmethod
    def resolve(self, context: Context) -> Any:
        """Return the value for the running task."""


def references_in(value: Any) -> Iterator[Reference]:
    """Yield the references in a value, including those in nested lists and dicts."""
    if isinstance(value, Reference):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from references_in(item)
    elif isinstance(value, dict):
        for item in value.values():
            yield from references_in(item)


def resolve(value: Any, context: Context) -> Any:
    """Return the value with its references resolved; the same object if there are none."""
    if next(references_in(value), None) is None:
        return value
    if isinstance(value, Reference):
        return value.resolve(context)
    if isinstance(value, dict):
        return {name: resolve(item, context) for name, item in value.items()}
    items = [resolve(item, context) for item in value]
    return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)


class DagParam(Reference):
    """A reference to a param of the DAG, such as an argument of the function that makes the DAG."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"DagParam({self.name!r})"

    def resolve(self, context: Context) -> Any:
        return context["params"][self.name]
