"""Schedule of a DAG: conversion of the author's argument to the value that the scheduler reads."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Any

from holdfast.errors import InvalidDag
from holdfast.model.dag import Cron, Every, OnAssets, Once, Schedule
from holdfast.model.plain_types import base_datetime, base_timedelta
from holdfast.sdk.asset import AssetAll, BaseAsset

PRESETS = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@quarterly": "0 0 1 */3 *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}


def as_schedule(where: str, value: Any, zone: tzinfo | None) -> Schedule | None:
    """Convert None, a preset, a cron expression, a timedelta, or assets.

    Raise InvalidDag for anything else.
    """
    match value:
        case None:
            return None
        case "@once":
            return Once()
        case "@continuous":
            raise InvalidDag(
                f"{where}: Holdfast does not support @continuous",
                hint="use schedule=timedelta(minutes=1) with max_active_runs=1",
            )
        case str():
            return _cron(where, value, zone)
        case timedelta():
            if value <= timedelta(0):
                raise InvalidDag(
                    f"{where}: its schedule is {value}", hint="give a positive interval"
                )
            return Every(base_timedelta(value))
        case BaseAsset():
            return OnAssets(value.spec)
    assets = assets_of(value)
    if not assets:
        raise InvalidDag(
            f"{where}: {value!r} is not a schedule",
            hint="give None, a cron expression, a preset such as @daily, a timedelta, or assets",
        )
    return OnAssets(AssetAll(*assets).spec if len(assets) > 1 else assets[0].spec)


def assets_of(value: Any) -> list[BaseAsset]:
    """Return the assets in a schedule; none if it is of another kind."""
    if isinstance(value, BaseAsset):
        return [value]
    if isinstance(value, Iterable) and not isinstance(value, str):
        several = list(value)
        if all(isinstance(one, BaseAsset) for one in several):
            return several
    return []


def _cron(where: str, text: str, zone: tzinfo | None) -> Cron:
    from cronsim import CronSim, CronSimError

    expression = PRESETS.get(text, text)
    wrong = "" if len(expression.split()) == 5 else "it does not have five fields"
    try:
        CronSim(expression, datetime.now(UTC))
    except CronSimError as error:
        wrong = wrong or str(error)
    if wrong:
        raise InvalidDag(
            f"{where}: {text!r} is neither a cron expression nor a preset: {wrong}",
            hint="give minute, hour, day, month and weekday, as in '30 2 * * *'; or "
            f"{', '.join(PRESETS)}, @once",
        )
    return Cron(expression, _zone_name(where, zone))


def _zone_name(where: str, zone: tzinfo | None) -> str:
    if zone is None or zone is UTC:
        return "UTC"
    name = getattr(zone, "key", None) or getattr(zone, "name", None)
    if not isinstance(name, str):
        raise InvalidDag(
            f"{where}: its start_date is in {zone}, which is not a named time zone",
            hint='use ZoneInfo("Europe/Vienna"), or UTC',
        )
    return name


def in_utc(where: str, name: str, value: Any) -> datetime | None:
    """Return a datetime in UTC, which is also assumed without a time zone.

    Raise InvalidDag for another type.
    """
    if value is None:
        return None
    if not isinstance(value, datetime):
        raise InvalidDag(f"{where}: {name} is {value!r}", hint="give a datetime")
    moment = base_datetime(value)
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
