"""The pipeline of the flights demo. Each attempt notes how long it was in calls of the store."""

import atexit
import json
import time
from pathlib import Path
from typing import Any

from holdfast.stores.pipe import PipeStore

calls: list[float] = []
execute = PipeStore.execute


def timed_execute(self: PipeStore, command: Any) -> Any:
    start = time.perf_counter()
    try:
        return execute(self, command)
    finally:
        calls.append(time.perf_counter() - start)


def note() -> None:
    if calls:
        with open("store-calls.jsonl", "a") as notes:
            notes.write(json.dumps({"calls": len(calls), "seconds": sum(calls)}) + "\n")


PipeStore.execute = timed_execute  # type: ignore[method-assign]
atexit.register(note)

# In this module, because Spark's executors cannot import one that lies elsewhere.
pipeline = Path(__file__).parents[3] / "examples" / "flights" / "pipeline.py"
__file__ = str(pipeline)
exec(compile(pipeline.read_text(), pipeline, "exec"))
