"""`get` of random entries among many rows, and among few."""

from __future__ import annotations

from random import Random

from bench.rounds import Contender, rates, timed
from bench.size import SIZE
from bench.store.databases import Databases
from bench.store.rows import KEYS, load, scope
from holdfast.commands import Get
from holdfast.stores.sql import SqlStore

FEW = SIZE.of(1_000, 10_000, 10_000)
MANY = SIZE.of(10_000, 1_000_000, 10_000_000)

_TURNS = {"postgresql": 125, "sqlite": 500}


def measure(databases: Databases, kind: str) -> dict[int, float]:
    """Gets a second, by the number of rows in the table."""
    found = rates({str(rows): contender(databases, kind, rows) for rows in (FEW, MANY)})
    return {int(rows): rate for rows, rate in found.items()}


def contender(databases: Databases, kind: str, rows: int) -> Contender:
    url = databases.make_store(kind, f"among_{rows}")
    load(url, rows, half_expired=False)
    store = SqlStore(url)
    random = Random(1)
    commands = []
    for _ in range(5000):
        owner = scope(random.randrange(rows // len(KEYS)))
        assert owner.ti_id  # derived once for each scope, so no part of the look-up
        commands.append(Get(owner, random.choice(KEYS)))
    return Contender(timed(lambda number: store.execute(commands[number % 5000])), _TURNS[kind])
