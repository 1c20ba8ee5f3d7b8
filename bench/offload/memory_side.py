"""One `set` or `get` of a large value in a process of its own: prints the growth of its memory at
the peak, the value itself included, in bytes."""

from __future__ import annotations

import argparse
import random
from pathlib import Path
from typing import Any

from holdfast import commands as c
from holdfast.accessor.task_store import TaskStore
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import TaskScope
from holdfast.settings import ObjectStore
from holdfast.stores.offload.objects.backend import ObjectStoreBackend
from holdfast.stores.offload.store import OffloadStore
from holdfast.stores.sql import SqlStore

TASK = TaskScope("orders", "scheduled__2026-01-01", "load")
PIECE = 2**20


def main() -> None:
    parser = argparse.ArgumentParser()
    for name in ("operation", "kind", "database", "url", "compression"):
        parser.add_argument(name)
    parser.add_argument("size", type=int)
    given = parser.parse_args()
    inner = SqlStore(given.database)
    inner.execute(c.RegisterTask(TASK))
    backend = ObjectStoreBackend(ObjectStore(url=given.url, compression=given.compression))
    store = TaskStore(OffloadStore(inner, backend), TASK, ApiWriter("bench"))
    # What is loaded once, whatever the size, is not counted.
    store.set("small", _value(given.kind, 10 * PIECE))
    store.get("small")
    before = _memory("VmRSS")
    if given.operation == "set":
        value = _value(given.kind, given.size)
        _forget_the_peak()
        store.set("large", value)
    else:
        _forget_the_peak()
        value = store.get("large")
    peak = _memory("VmHWM")
    assert _size(value) == given.size
    print(peak - before)


def _value(kind: str, size: int) -> Any:
    piece = random.Random(0).randbytes(PIECE // 2).hex()
    if kind == "one string":
        return "".join(_pieces(piece, size))
    return list(_pieces(piece, size))


def _pieces(piece: str, size: int) -> Any:
    return (f"{number:06}{piece[6:]}" for number in range(size // PIECE))


def _size(value: Any) -> int:
    return len(value) if isinstance(value, str) else sum(map(len, value))


def _forget_the_peak() -> None:
    Path("/proc/self/clear_refs").write_text("5")


def _memory(what: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name == what:
            return int(rest.split()[0]) * 1024
    raise LookupError(what)


if __name__ == "__main__":
    main()
