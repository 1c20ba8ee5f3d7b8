"""Timing of contenders: five rounds, in turns, so that the machine's noise hits all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from statistics import median
from typing import NamedTuple, TypeAlias

from bench.size import SIZE

ROUNDS = SIZE.of(2, 5, 5)
TURNS = SIZE.of(2, 20, 20)

Work: TypeAlias = Callable[[int], float]
"""Does an operation that many times, and says how many seconds that took."""


class Contender(NamedTuple):
    work: Work
    turn: int
    """Operations before it is the next one's turn."""
    entries: int = 1
    """Entries that one operation writes or reads."""


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


def in_turns(names: list[str], turn: int) -> list[str]:
    """Each turn begins with another one, since what came before may still be felt."""
    first = turn % len(names)
    return names[first:] + names[:first]


def rates(contenders: Mapping[str, Contender]) -> dict[str, float]:
    """Entries a second of each contender: the median of the rounds, after one turn to warm up."""
    for contender in contenders.values():
        contender.work(contender.turn)
    seconds: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        spent = dict.fromkeys(contenders, 0.0)
        for turn in range(TURNS):
            for name in in_turns(list(contenders), turn):
                contender = contenders[name]
                spent[name] += contender.work(contender.turn)
        for name, total in spent.items():
            seconds[name].append(total)
    return {
        name: contender.turn * TURNS * contender.entries / median(seconds[name])
        for name, contender in contenders.items()
    }
