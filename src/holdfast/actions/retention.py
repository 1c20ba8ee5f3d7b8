"""Retention as configured: old runs, asset events and logs are deleted."""

from __future__ import annotations

import logging
from collections import Counter

from holdfast import commands as c
from holdfast.actions.log_retention import delete_logs_of_deleted_runs, delete_old_logs
from holdfast.cleanup.retention import EventPlan, RunPlan
from holdfast.settings import Retention, Settings
from holdfast.store import Store

log = logging.getLogger("holdfast.cleanup")


def apply_retention(store: Store, settings: Settings) -> None:
    """Delete what has been kept for as long as `[retention]` says, and the logs on this machine of
    all deleted runs. Log what was deleted."""
    ages, home = settings.retention, settings.home
    removed: Counter[str] = Counter()
    try:
        if ages.runs or ages.external_runs:
            removed["runs"] = _prune_runs(store, ages)
        if ages.asset_events:
            removed["asset events"] = sum(EventPlan.now(store, ages.asset_events).delete())
        removed["logs of deleted runs"] = delete_logs_of_deleted_runs(store, home)
        if ages.logs:
            removed["log files"] = delete_old_logs(store, home, ages.logs)
    finally:
        if any(removed.values()):
            counts = (f"{what}: {count:,}" for what, count in removed.items() if count)
            log.info("removed by age: %s", ", ".join(counts))


def _prune_runs(store: Store, ages: Retention) -> int:
    if not store.supports(c.PruneRuns):
        log.warning(
            "no runs are removed by age, because the configured backend cannot tell which of "
            "their entries have expired; delete them with `holdfast runs delete`"
        )
        return 0
    return sum(1 for _ in RunPlan.now(store, ages.runs, ages.external_runs).delete())
