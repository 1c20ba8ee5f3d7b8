"""Conformance suite of runs, for stores that hold DAGs, runs, attempts, events and watches."""

from __future__ import annotations

from holdfast.testing.runs.activity import ActivityCounts
from holdfast.testing.runs.alerts import Alerts
from holdfast.testing.runs.attempts import RunAttempts
from holdfast.testing.runs.counting import RunCounts
from holdfast.testing.runs.dags import Dags
from holdfast.testing.runs.events import Events
from holdfast.testing.runs.marking import Marking
from holdfast.testing.runs.pools import Pools
from holdfast.testing.runs.retention import Retention
from holdfast.testing.runs.runs import Runs
from holdfast.testing.runs.services import Services
from holdfast.testing.runs.tasks import Tasks
from holdfast.testing.runs.watches import Watches

__all__ = ["RunConformance"]


class RunConformance(
    Runs,
    RunAttempts,
    RunCounts,
    ActivityCounts,
    Alerts,
    Dags,
    Events,
    Marking,
    Pools,
    Retention,
    Services,
    Tasks,
    Watches,
):
    """Tests of runs. A subclass is a store's test, as with `StateConformance`."""
