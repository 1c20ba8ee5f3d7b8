"""Retention: runs and asset events that are deleted by age, and nothing that is still needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast import commands as c
from holdfast.model.run import PrunableEvent, PrunableRun, RunKind, RunState
from holdfast.stores.sql import rows
from holdfast.stores.sql.operations.asset_schedules import condition_in, cursors
from holdfast.stores.sql.operations.registry import remove_run
from holdfast.stores.sql.operations.steps import BEGIN, Context, Steps
from holdfast.stores.sql.statements import retention as s
from holdfast.stores.sql.statements import runs as r


def _params(which: c.RunsToPrune) -> dict[str, Any]:
    params: dict[str, Any] = {
        "as_of": rows.micros(which.now),
        "before": rows.micros(which.before),
        "external_before": rows.micros(which.external_before),
        "abandoned_before": rows.micros(which.abandoned_before),
    }
    if which.dag_id is not None:
        params["dag_id"] = which.dag_id
    if which.state is not None:
        params["state"] = which.state.value
    return params


def _filters(which: c.RunsToPrune) -> tuple[bool, bool]:
    return which.dag_id is not None, which.state is not None


def list_prunable_runs(
    context: Context, command: c.ListPrunableRuns
) -> Steps[tuple[PrunableRun, ...]]:
    which = command.which
    page = {"after": command.after, "limit": command.limit}
    found = yield s.prunable_runs(*_filters(which)), _params(which) | page
    return tuple(_prunable_run(row) for row in found)


def _prunable_run(row: rows.Row) -> PrunableRun:
    id, dag_id, run_id, kind, state, created_at, ended_at = row
    return PrunableRun(
        *(id, dag_id, run_id, RunKind(kind), RunState(state)),
        *(rows.instant(created_at), rows.time_of(ended_at)),
    )


def prune_runs(context: Context, command: c.PruneRuns) -> Steps[tuple[int, ...]]:
    if not command.runs:
        return ()
    yield BEGIN
    which = command.which
    ids = {f"id_is_{i}": run for i, run in enumerate(command.runs)}
    gone: list[int] = []
    for (run,) in (yield s.lock_runs(type(context.dialect), len(ids)), ids):
        this = {"run": run}
        tasks = yield r.lock_tasks_of_run(), this
        # Checked only now, when nobody can clear the run or write to its task stores any more.
        for dag_id, run_id in (yield s.is_prunable(*_filters(which)), _params(which) | this):
            yield from remove_run(context, dag_id, run_id, tasks)
            gone.append(run)
    return tuple(gone)


def deleted_runs(context: Context, command: c.DeletedRuns) -> Steps[tuple[str, ...]]:
    if not command.run_ids:
        return ()
    ids = {f"run_id_is_{i}": run_id for i, run_id in enumerate(command.run_ids)}
    found = yield s.deleted_runs(len(ids)), {"dag_id": command.dag_id} | ids
    return tuple(run_id for (run_id,) in found)


def list_prunable_events(
    context: Context, command: c.ListPrunableEvents
) -> Steps[tuple[PrunableEvent, ...]]:
    last = command.after or PrunableEvent(0, 0)
    params = {"before": rows.micros(command.before), "limit": command.limit}
    while True:
        position = {"after_asset": last.asset_id, "after_number": last.number}
        page = [PrunableEvent(*row) for row in (yield s.old_events(), params | position)]
        if not page:
            return ()
        if consumed := (yield from _consumed(page)):
            return consumed
        last = page[-1]


def prune_events(context: Context, command: c.PruneEvents) -> Steps[int]:
    yield BEGIN
    before = rows.micros(command.before)
    count = 0
    for event in (yield from _consumed(command.events)):
        this = {"asset": event.asset_id, "event": event.number}
        count += yield s.delete_event(), this | {"before": before}
    return count


def _consumed(events: Sequence[PrunableEvent]) -> Steps[tuple[PrunableEvent, ...]]:
    """Return those of the recorded events that no DAG has yet to consume.

    A cursor never moves back, and one that begins later is beyond all of them, so that this stays
    true.
    """
    needed_after: dict[int, int] = {}
    for dag_id, spec in (yield s.dags_on_assets(), {}):
        condition = condition_in(spec)
        if condition is None:
            continue
        behind = yield from cursors(dag_id, condition)
        for cursor in (cursor for some in behind.values() for cursor in some):
            lowest = needed_after.get(cursor.asset_id, cursor.consumed)
            needed_after[cursor.asset_id] = min(lowest, cursor.consumed)
    return tuple(
        event for event in events if event.number <= needed_after.get(event.asset_id, event.number)
    )
