"""A process that calls `set` until its input ends: URL in; when each call began, and how long."""

from __future__ import annotations

import json
import sys
import time
from threading import Event, Thread

from bench.store.single import through_task_store


def main(url: str) -> None:
    set_ = through_task_store(url)["set"]
    for number in range(100):
        set_(number)
    print("ready", flush=True)
    stop = Event()
    Thread(target=wait_for_end, args=[stop]).start()
    calls: list[tuple[float, float]] = []
    while not stop.is_set():
        start = time.monotonic()
        set_(len(calls))
        calls.append((start, time.monotonic() - start))
    print(json.dumps(calls))


def wait_for_end(stop: Event) -> None:
    sys.stdin.read()
    stop.set()


if __name__ == "__main__":
    main(sys.argv[1])
