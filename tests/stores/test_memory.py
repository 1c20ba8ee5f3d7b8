"""The reference model in memory."""

from __future__ import annotations

import pytest

from holdfast.testing import MakeStore, StoreConformance
from holdfast.testing.memory_store import MemoryStore


class TestMemoryStore(StoreConformance):
    differs = {
        "test_a_pickled_store_reads_and_writes_the_same_state": "what is in memory stays there"
    }
    history_limit = 4
    modes = ("sync",)

    @pytest.fixture
    def make_store(self) -> MakeStore:
        return lambda clock: MemoryStore(history_limit=self.history_limit, clock=clock)
