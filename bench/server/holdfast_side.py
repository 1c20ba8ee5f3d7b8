"""Our client: the task store of an attempt, over HTTP."""

from __future__ import annotations

from typing import Any

from bench.server.asked import Operations, answer
from bench.workload import KEYS, VALUES
from holdfast.accessor.task_store import TaskStore
from holdfast.model.entry import TaskWriter
from holdfast.model.scope import TaskScope
from holdfast.stores.http import HttpStore


def begin(given: dict[str, Any]) -> Operations:
    scope = TaskScope(*given["names"])
    store = TaskStore(HttpStore(given["url"], given["token"]), scope, TaskWriter(scope, 1))

    def get(number: int) -> None:
        assert store.get(KEYS[number % 100]) == VALUES[number % 100]

    return {"set": lambda number: store.set(KEYS[number % 100], VALUES[number % 100]), "get": get}


if __name__ == "__main__":
    answer(begin)
