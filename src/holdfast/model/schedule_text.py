"""The schedule of a DAG as text."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from holdfast.model.dag import (
    AliasSpec,
    AllOf,
    AnyOf,
    AssetRefSpec,
    AssetSpec,
    Condition,
    Cron,
    Every,
    OnAssets,
    Schedule,
)
from holdfast.model.duration import duration_text


def schedule_text(schedule: Schedule | None) -> str:
    """Return a schedule as text."""
    if schedule is None:
        return "by hand"
    if isinstance(schedule, OnAssets):
        return f"on {condition_text(schedule.condition)}"
    if isinstance(schedule, Every):
        return f"every {interval_text(schedule.interval)}"
    if isinstance(schedule, Cron):
        zone = "" if schedule.timezone == "UTC" else f", {schedule.timezone}"
        return f"{cron_text(schedule.expression)}{zone}"
    return "once"


def interval_text(interval: timedelta) -> str:
    whole = not interval % timedelta(seconds=1)
    return duration_text(interval) if whole else f"{interval.total_seconds()}s"


def cron_text(expression: str) -> str:
    from cronsim import CronSim

    words = CronSim(expression, datetime.now(UTC)).explain()
    return words[:1].lower() + words[1:]


def condition_text(condition: Condition) -> str:
    if isinstance(condition, AllOf | AnyOf):
        joint = " and " if isinstance(condition, AllOf) else " or "
        return joint.join(
            f"({condition_text(one)})" if isinstance(one, AllOf | AnyOf) else condition_text(one)
            for one in condition.of
        )
    return asset_text(condition)


def asset_text(asset: AssetSpec | AssetRefSpec | AliasSpec) -> str:
    if isinstance(asset, AliasSpec):
        return f"alias {asset.name}"
    return asset.name or asset.uri or ""
