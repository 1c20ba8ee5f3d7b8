"""Alerts: raised, resolved, taken for delivery, and finished."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

import msgspec

from holdfast import commands as c
from holdfast.model.alert import (
    Alert,
    AlertKind,
    AlertStatus,
    Channel,
    of_broken_file,
    of_late_asset,
)
from holdfast.stores.sql import rows
from holdfast.stores.sql.operations.measuring import up_to_size
from holdfast.stores.sql.operations.steps import BEGIN, Context, Steps, window
from holdfast.stores.sql.statements import alerts as s
from holdfast.stores.sql.statements import entries as n

IMPORT_GRACE: Final = timedelta(minutes=1)
"""How long a DAG file has to be broken: one that is being replaced is not worth an alert."""
KEPT: Final = timedelta(days=30)
_ASSETS_AT_ONCE: Final = 500

_Conditions = dict[str, tuple[AlertKind, dict[str, Any]]]
"""What is to be alerted, by the digest of its kind and name."""


def raise_alert(
    kind: AlertKind, alert: c.NewAlert, subject: str | None = None, wait: timedelta = timedelta(0)
) -> Steps[None]:
    for channel in alert.channels:
        row = {"channel": channel.value, "kind": kind.value, "facts": alert.facts}
        yield s.add(), row | {"subject": subject, "wait": rows.microseconds(wait)}


def check_conditions(context: Context, command: c.CheckConditions) -> Steps[tuple[str, ...] | None]:
    channel = {"channel": command.channel.value}
    found = yield s.next_check(), channel
    if not found:
        yield s.add_check(type(context.dialect)), channel
    elif not found[0][0]:
        return None
    yield BEGIN
    interval = {"interval": rows.microseconds(command.interval)}
    if not (yield s.begin_check(), channel | interval):
        return None  # another process was quicker
    known = yield s.lasting(), channel
    broken = yield from _broken_files()
    late, unknown = yield from _late_assets(command.late_after, known)
    yield from _follow(command.channel, broken | late, {row[1]: row[0] for row in known})
    yield s.forget(), {"age": rows.microseconds(KEPT)}
    return unknown


def _broken_files() -> Steps[_Conditions]:
    found = yield s.broken_files(), {}
    return {
        _subject(AlertKind.IMPORT_ERROR, file): (
            AlertKind.IMPORT_ERROR,
            of_broken_file(file, error),
        )
        for file, error in found
    }


def _late_assets(
    late_after: Mapping[str, timedelta], known: Sequence[rows.Row]
) -> Steps[tuple[_Conditions, tuple[str, ...]]]:
    """Return the assets that are late, and the names that no asset has.

    An asset that is not configured here stays late until it has an event: another scheduler, with
    other settings, has raised its alert.
    """
    since: dict[str, int] = {
        msgspec.json.decode(facts)["asset"]: raised_at
        for _, _, kind, facts, raised_at in known
        if kind == AlertKind.ASSET_LATE
    }
    late: _Conditions = {}
    names, existing = [*late_after, *(since.keys() - late_after.keys())], set()
    for start in range(0, len(names), _ASSETS_AT_ONCE):
        some = names[start : start + _ASSETS_AT_ONCE]
        digests = {f"name_digest_is_{i}": rows.digest(name) for i, name in enumerate(some)}
        for name, at, age in (yield s.newest_events(len(some)), digests):
            existing.add(name)
            limit = late_after.get(name)
            if limit is None:
                is_late = at is None or at <= since[name]
            else:
                is_late = timedelta(microseconds=int(age)) > limit
            if is_late:
                facts = of_late_asset(name, rows.time_of(at), limit or timedelta(0))
                late[_subject(AlertKind.ASSET_LATE, name)] = (AlertKind.ASSET_LATE, facts)
    return late, tuple(name for name in late_after if name not in existing)


def _subject(kind: AlertKind, name: str) -> str:
    return rows.digest(f"{kind} {name}")


def _follow(channel: Channel, conditions: _Conditions, known: Mapping[str, int]) -> Steps[None]:
    """Raise the alerts of new conditions, and resolve those of ended ones."""
    for subject, (kind, facts) in conditions.items():
        if subject not in known:
            new = c.NewAlert((channel,), msgspec.json.encode(facts).decode())
            wait = IMPORT_GRACE if kind is AlertKind.IMPORT_ERROR else timedelta(0)
            yield from raise_alert(kind, new, subject, wait)
    for subject, id in known.items():
        if subject not in conditions and not (yield s.drop_untried(), {"alert": id}):
            yield s.resolve(), {"alert": id}


def take_alert(context: Context, command: c.TakeAlert) -> Steps[Alert | None]:
    channel = {"channel": command.channel.value}
    if not (yield s.due(), channel):  # most times, without a transaction
        return None
    yield BEGIN
    found = yield s.lock_due(type(context.dialect)), channel
    if not found:
        return None
    alert = _alert(found[0])
    yield s.take(), {"alert": alert.id, "lease": rows.microseconds(command.lease)}
    return msgspec.structs.replace(alert, tries=alert.tries + 1)


def withdraw_alerts(context: Context, command: c.WithdrawAlerts) -> Steps[None]:
    yield s.withdraw(), {"channel": command.channel.value}


def finish_alert(context: Context, command: c.FinishAlert) -> Steps[None]:
    if not command.error:
        yield s.finish(), {"alert": command.alert_id, "status": command.status.value}
        return
    wait = rows.microseconds(command.retry_after)
    yield s.fail(), {"alert": command.alert_id, "error": command.error, "wait": wait}


def list_alerts(context: Context, command: c.ListAlerts) -> Steps[tuple[Alert, ...]]:
    select, page = s.alerts(), window(command.limit, command.offset)
    found, _ = yield from up_to_size((select, page), n.measured(select, "facts"), command.max_size)
    return tuple(map(_alert, found))


def _alert(row: rows.Row) -> Alert:
    id, channel, kind, facts, raised_at, resolved_at, delivered, tries, due_at, error = row
    return Alert(
        id=id,
        channel=Channel(channel),
        kind=AlertKind(kind),
        facts=facts,
        raised_at=rows.instant(raised_at),
        resolved_at=rows.time_of(resolved_at),
        delivered=AlertStatus(delivered) if delivered else None,
        tries=tries,
        next_try_at=rows.time_of(due_at),
        error=error or "",
    )
