"""SIGKILL of a writer at a random moment: no acknowledged write is lost."""

from __future__ import annotations

import random

import pytest
import workloads as w
from processes import Worker
from survival import Survivor

from holdfast.stores.sql import SqlStore


@pytest.mark.chaos
def test_a_killed_writer_loses_no_acknowledged_write(database_url: str, kills: int) -> None:
    with SqlStore(database_url) as store:
        w.prepare(store)
        survivor = Survivor(store)
        for seed in range(kills):
            draw = random.Random(seed)
            writer = Worker(w.write_without_end, database_url, seed, survivor.written)
            survivor.note(writer, seconds=60, limit=draw.randrange(60))
            survivor.note(writer, seconds=draw.uniform(0, 0.01))
            writer.kill()
            survivor.note(writer, seconds=0)
            survivor.check()
