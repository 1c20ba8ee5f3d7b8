"""A log that a server reads: on its own machine, or in storage."""

from __future__ import annotations

from typing import Final
from urllib.parse import quote

from holdfast.logs.log import Log, Part
from holdfast.model.scope import TaskScope
from holdfast.portable.client import foreign_response
from holdfast.portable.transport import Response
from holdfast.stores.http import HttpStore

OFFSET: Final = "Log-Offset"
"""The response header with the offset of the first byte of the log in the body."""
NEXT: Final = "Log-Next-Offset"
"""The response header with the offset to read from next."""
MOST_LINES: Final = 10_000
"""Last lines that a server counts, at most."""
COMPLETE: Final = "Log-Complete"
"""The response header that is `true` if nothing will be added to the log."""


class ServedLog(Log):
    """The log of an attempt, from the API of a server."""

    pause = 1.0

    def __init__(self, store: HttpStore, scope: TaskScope, attempt: int) -> None:
        dag, run, task = (
            quote(one, safe="") for one in (scope.dag_id, scope.run_id, scope.task_id)
        )
        self._store = store
        self._path = (
            f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances/{task}/logs/{attempt}"
            f"?map_index={scope.map_index}"
        )

    def read(self, offset: int) -> Part:
        """Return some of the log, from `offset` on. Raise NotFound if the server has none."""
        response = self._get(f"offset={offset}")
        return Part(response.body, self._number(response, NEXT))

    def tail(self, lines: int) -> int:
        return self._number(self._get(f"tail={min(lines, MOST_LINES)}"), OFFSET)

    def _get(self, query: str) -> Response:
        response = self._store.get(f"{self._path}&{query}")
        self.is_complete = response.headers.get(COMPLETE.lower()) == "true"
        return response

    def _number(self, response: Response, header: str) -> int:
        text = response.headers.get(header.lower(), "")
        if not text.isdecimal():
            raise foreign_response(self._store.url, response)
        return int(text)
