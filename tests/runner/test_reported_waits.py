"""Reasons of waiting tasks, while the store is unavailable."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from holdfast import commands as c
from holdfast.errors import StoreUnavailable
from holdfast.runner.scheduler.conductor import Conductor


class Failing:
    """Store that is unavailable for the first command."""

    def __init__(self) -> None:
        self.received: list[c.ReportWaits] = []

    def execute(self, command: c.ReportWaits) -> None:
        self.received.append(command)
        if len(self.received) == 1:
            raise StoreUnavailable("the database does not answer")


def test_reasons_that_the_store_missed_are_sent_again() -> None:
    waits = {"load": "a free slot"}
    run = SimpleNamespace(dag_id="etl", run_id="r1")
    active = SimpleNamespace(
        key=("etl", "r1"), run=run, ready=object(), limited=waits, reported={}, logged=set()
    )
    store = Failing()
    conductor: Any = SimpleNamespace(
        runs={active.key: active},
        store=store,
        _limits=SimpleNamespace(reasons=lambda ready: waits),
    )

    with pytest.raises(StoreUnavailable):
        Conductor._report_waits(cast(Conductor, conductor))
    for _ in range(2):
        Conductor._report_waits(cast(Conductor, conductor))

    assert [command.runs for command in store.received] == [(c.Waits("etl", "r1", waits),)] * 2
