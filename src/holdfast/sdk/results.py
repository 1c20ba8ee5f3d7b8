"""Results of tasks, as another task of the run reads them."""

from __future__ import annotations

from typing import Any

from holdfast.commands import GetResults
from holdfast.errors import NotFound
from holdfast.model.run import RETURN_VALUE
from holdfast.model.value import decode
from holdfast.sdk.xcomarg import XComArg
from holdfast.store import Store

ABSENT: Any = object()


class Results:
    """The values that the tasks of one run have returned and pushed."""

    def __init__(self, store: Store, dag_id: str, run_id: str) -> None:
        self._store = store
        self._dag_id = dag_id
        self._run_id = run_id

    def get(
        self, task_id: str, key: str = RETURN_VALUE, map_index: int | None = None
    ) -> list[tuple[int, Any]]:
        """Return (map index, value) pairs that a task pushed, or else returned, under a key."""
        found = self._pushed(task_id, key, map_index)
        if found or key == RETURN_VALUE:
            return found
        returned = self._pushed(task_id, RETURN_VALUE, map_index)
        return [
            (at, value[key]) for at, value in returned if isinstance(value, dict) if key in value
        ]

    def of(self, result: XComArg) -> Any:
        """Return the value, or for a mapped task the list of existing ones; None if there is none.

        Raise NotFound if the result of a task that is not mapped lacks the path of subscripts.
        """
        task_id = result.operator.task_id
        mapped = result.operator._mapped is not None
        values = []
        for at, value in self._pushed(task_id):
            try:
                values.append(self._part(result, value, at))
            except NotFound:
                if not mapped:
                    raise
        if mapped:
            return values
        if values:
            return values[0]
        return self._part(result, None, -1) if result.path else None

    def _pushed(
        self, task_id: str, key: str = RETURN_VALUE, map_index: int | None = None
    ) -> list[tuple[int, Any]]:
        asked = GetResults(self._dag_id, self._run_id, task_id, key, map_index)
        return [(at, decode(text)) for at, text in self._store.execute(asked)]

    def _part(self, result: XComArg, value: Any, map_index: int) -> Any:
        """Return the value at the path of subscripts, whose first may be a key that was pushed.

        Raise NotFound if there is none.
        """
        for place, key in enumerate(result.path):
            inner = _subscript(value, key)
            if place == 0 and isinstance(key, str):
                pushed = self._pushed(result.operator.task_id, key, map_index)
                inner = pushed[0][1] if pushed else inner
            if inner is ABSENT:
                raise NotFound(
                    f"{result} does not exist: the returned value has no {key!r}",
                    hint=f"the task returned {_shown(value)}",
                )
            value = inner
        return value


def _subscript(value: Any, key: str | int) -> Any:
    if isinstance(value, dict):
        return value.get(key, ABSENT)
    if isinstance(value, list | str) and isinstance(key, int) and -len(value) <= key < len(value):
        return value[key]
    return ABSENT


def _shown(value: Any) -> str:
    if value is None:
        return "nothing"
    if isinstance(value, dict):
        return f"a dict with {', '.join(map(repr, value)) or 'no keys'}"
    return f"a {type(value).__name__}"
