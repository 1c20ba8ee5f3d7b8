"""The far end of a client in a process of its own, for Airflow's Python too: it works when asked.

Reads one JSON request a line, and answers each with the seconds that each call took.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

Operations: TypeAlias = Mapping[str, Callable[[int], object]]
"""`set` and `get` of the n-th key."""


def answer(begin: Callable[[dict[str, Any]], Operations]) -> None:
    """Begin with what the first line tells: where the server is, who this is, what to write.
    Then call the operations with 0, 1, 2 …, each going on where it stopped the time before."""
    # What libraries print must not get between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    operations = begin(json.loads(sys.stdin.readline()))
    done = dict.fromkeys(operations, 0)
    for line in sys.stdin:
        request = json.loads(line)
        what = request["do"]
        seconds = []
        for number in range(done[what], done[what] + request["times"]):
            start = time.perf_counter()
            operations[what](number)
            seconds.append(time.perf_counter() - start)
        done[what] += request["times"]
        print(json.dumps(seconds), file=answers, flush=True)
