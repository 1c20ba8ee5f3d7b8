"""Heartbeats: a process renews the leases on what it works on."""

from __future__ import annotations

from typing import Any, TypeVar

from holdfast import commands as c
from holdfast.stores.sql import rows, run_rows
from holdfast.stores.sql.operations.steps import BEGIN, Context, Steps
from holdfast.stores.sql.operations.watches import watch_params
from holdfast.stores.sql.statements import events as e
from holdfast.stores.sql.statements import runs as s

T = TypeVar("T")


def heartbeat(context: Context, command: c.Heartbeat) -> Steps[c.Lost]:
    yield BEGIN
    terms = {
        "process": run_rows.process_column(command.process),
        "lease": rows.microseconds(command.lease),
    }
    runs = {
        (dag_id, run_id): terms | {"dag_id": dag_id, "run_id": run_id}
        for dag_id, run_id in sorted(command.runs)
    }
    attempts = {
        writer: terms | {"owner": writer.scope.ti_text, "attempt": writer.attempt}
        for writer in sorted(command.attempts, key=lambda writer: writer.scope.ti_text)
    }
    watches = {}
    for watch in command.watches:
        watches[watch] = terms | (yield from watch_params(watch))
    return c.Lost(
        runs=(yield from _renew(s.renew_run(), s.held_run(), runs)),
        attempts=(yield from _renew(s.renew_attempt(), s.open_attempt(), attempts)),
        watches=(yield from _renew(e.renew_watch(), e.newest_watch(), watches)),
    )


def _renew(renew: Any, find: Any, wanted: dict[T, dict[str, Any]]) -> Steps[tuple[T, ...]]:
    """Return those that could not be renewed."""
    if not wanted:
        return ()
    renewed = yield renew, list(wanted.values())
    if renewed == len(wanted):
        return ()
    lost = []
    for each, params in wanted.items():
        if not (yield find, params):
            lost.append(each)
    return tuple(lost)
