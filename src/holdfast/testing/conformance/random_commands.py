"""Random commands, compared with a reference model."""

from __future__ import annotations

from zlib import crc32

import pytest
from hypothesis.stateful import run_state_machine_as_test

from holdfast.testing.clock import Clock
from holdfast.testing.conformance.fixtures import MakeStore, StoreFixtures
from holdfast.testing.machine import machine_for


class RandomCommands(StoreFixtures):
    def test_random_commands_do_what_they_do_to_a_dict(
        self, make_store: MakeStore, mode: str, clock: Clock, pytestconfig: pytest.Config
    ) -> None:
        machine = machine_for(
            make_store,
            mode=mode,
            history_limit=self.history_limit,
            seed=crc32(f"{type(self).__name__} {mode}".encode()),
            rounds=pytestconfig.getoption("--rounds", default=1),
            gaps=self.gaps,
        )

        run_state_machine_as_test(machine, settings=machine.TestCase.settings)
