"""One of many clients: it sets and gets in turns, for as many seconds as the second line says."""

from __future__ import annotations

import json
import sys
import time

from bench.server.holdfast_side import begin


def main() -> None:
    both = begin(json.loads(sys.stdin.readline()))
    for operation in both.values():
        operation(0)
    print("ready", flush=True)
    length = float(sys.stdin.readline())
    deadline, used = time.monotonic() + length, time.process_time()
    seconds: dict[str, list[float]] = {name: [] for name in both}
    errors: list[str] = []
    number = 0
    while time.monotonic() < deadline:
        for name, operation in both.items():
            start = time.perf_counter()
            try:
                operation(number)
            except Exception as error:
                errors.append(repr(error))
            seconds[name].append(time.perf_counter() - start)
        number += 1
    used = time.process_time() - used
    print(json.dumps({"seconds": seconds, "errors": errors, "processor": used}))


if __name__ == "__main__":
    main()
