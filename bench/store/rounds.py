"""Timing of contenders: five rounds, in turns, so that the machine's noise hits all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median

ROUNDS = 5
TURNS = 10

Work = Callable[[int], float]
"""Does an operation that many times and says how many seconds that took."""


def timed(operation: Callable[[int], object]) -> Work:
    """Work that calls the operation with 0, 1, 2 …, going on where it stopped the time before."""
    done = 0

    def work(times: int) -> float:
        nonlocal done
        start = time.perf_counter()
        for number in range(done, done + times):
            operation(number)
        elapsed = time.perf_counter() - start
        done += times
        return elapsed

    return work


def rates(contenders: Mapping[str, Work], operations: int) -> dict[str, float]:
    """Operations a second of each contender: the median of the rounds."""
    turn = max(1, operations // TURNS)
    for work in contenders.values():
        work(turn)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        spent = dict.fromkeys(contenders, 0.0)
        for _ in range(TURNS):
            for name, work in contenders.items():
                spent[name] += work(turn)
        for name, total in spent.items():
            seconds[name].append(total)
    return {name: turn * TURNS / median(totals) for name, totals in seconds.items()}
