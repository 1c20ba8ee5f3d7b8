"""Refusal of Jinja templates in task arguments, because nothing renders them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidDag

if TYPE_CHECKING:
    from holdfast.sdk.node import TaskNode


def refuse_templates(task: TaskNode) -> None:
    """Raise InvalidDag for an argument that Airflow would render, or read from a file."""
    for name, value in task._templated():
        for place, text in _texts(name, value):
            where = f"DAG `{task.dag_id}`, task `{task.task_id}`, argument `{place}`"
            if "{{" in text or "{%" in text:
                raise InvalidDag(
                    f"{where}: {text!r} is a template, and Holdfast does not render templates",
                    hint="take the value from the context when the task runs: a parameter `ds`, "
                    '`logical_date`, `params` or `ti` of a @task, or context["ds"] in execute()',
                )
            if text.endswith(task._template_endings):
                raise InvalidDag(
                    f"{where}: {text!r} is a template file, and Holdfast does not render templates",
                    hint="read the file when the task runs, or pass its content",
                )


def _texts(place: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield every string in a value, at any depth, with its path."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, Mapping):
        for key, item in value.items():
            yield from _texts(f"{place}[{key!r}]", item)
    elif isinstance(value, list | tuple | set | frozenset):
        for number, item in enumerate(value):
            yield from _texts(f"{place}[{number}]", item)
