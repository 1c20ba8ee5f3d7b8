"""Runs: created, executed by one process at a time, and ended.

Rows are locked in this order: DAG, run, task instances, pools, assets. So transactions wait for
each other, and never deadlock.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, NamedTuple

import msgspec

from holdfast import commands as c
from holdfast.errors import Conflict, InvalidInput, NotFound, StaleAttempt
from holdfast.model.alert import AlertKind
from holdfast.model.run import Process, Run, RunKind, RunState, Unfinished
from holdfast.stores import refusals
from holdfast.stores.sql import rows, run_rows
from holdfast.stores.sql.operations.alerts import raise_alert
from holdfast.stores.sql.operations.measuring import up_to_size
from holdfast.stores.sql.operations.steps import BEGIN, Context, Query, Steps, each, window
from holdfast.stores.sql.statements import dags as d
from holdfast.stores.sql.statements import runs as s
from holdfast.stores.sql.statements.entries import measured


class LockedRun(NamedTuple):
    """A run's row, locked."""

    id: int
    kind: str
    state: str
    owner: str | None
    """The process that holds the run, or that has ended it."""
    leased: bool | None
    """None if no process holds the run."""


def choices(name: str, values: Sequence[StrEnum]) -> dict[str, str]:
    """Return the parameters for `statements.runs.one_of`."""
    return {f"{name}_is_{i}": value.value for i, value in enumerate(values)}


def lock_run(dag_id: str, run_id: str) -> Steps[LockedRun]:
    found = yield s.lock_run(), {"dag_id": dag_id, "run_id": run_id}
    if not found:
        raise refusals.unknown_run(dag_id, run_id)
    return LockedRun(*found[0])


def unknown_dag(dag_id: str) -> Steps[NotFound]:
    return refusals.unknown_dag(dag_id, [known for (known,) in (yield d.dag_ids(), {})])


def lock_dag_to_delete(dag_id: str) -> Steps[str]:
    """Lock a DAG, so that no file saves it and its schedule starts no run. Return the digest of its
    file. Raise NotFound for an unknown DAG, and Conflict if a scheduler has its file."""
    found = yield d.lock_dag(), {"dag_id": dag_id}
    if not found:
        raise (yield from unknown_dag(dag_id))
    holder, _, _, _, seen_lately = found[0]
    if holder != d.NOWHERE and seen_lately:
        [(file,)] = yield d.file_name(), {"digest": holder}
        raise refusals.dag_in_file(dag_id, file)
    return holder  # type: ignore[no-any-return]


def lock_external_run(dag_id: str, run_id: str) -> Steps[int | None]:
    """Begin a transaction, and lock the run if it is external: its state follows its attempts.
    Return its id, or None."""
    yield BEGIN
    found = yield s.lock_external_run(), {"dag_id": dag_id, "run_id": run_id}
    return found[0][0] if found else None


def settle_external_run(run: int | None) -> Steps[None]:
    if run is not None:
        yield s.settle_external_run(), {"run": run}


def lock_held_run(dag_id: str, run_id: str, process: Process) -> Steps[int]:
    """Return the run's id, locked. Raise StaleAttempt if the process does not hold it."""
    run = yield from lock_run(dag_id, run_id)
    if run.owner != run_rows.process_column(process) or RunState(run.state).ended:
        raise _not_held(dag_id, run_id, process, run)
    return run.id


def _not_held(dag_id: str, run_id: str, asker: Process, run: LockedRun) -> StaleAttempt:
    owner = None if RunState(run.state).ended else run_rows.process(run.owner)
    return StaleAttempt(
        f"{asker} does not hold run {dag_id}/{run_id}: {owner or 'no process'} does",
        hint="nothing was written; this process should leave the run alone",
    )


def free(owner: str | None, leased: bool | None, asker: Process, dead: Process | None) -> bool:
    """Return whether the process `asker` may take what `owner` holds."""
    own = (run_rows.process_column(asker), run_rows.process_column(dead))
    return not leased or owner is None or owner in own


def add_run(command: c.CreateRun) -> Steps[int]:
    """Insert a new run and return its id. Raise Conflict if it exists already."""
    named = {"dag_id": command.dag_id, "run_id": command.run_id}
    if (yield s.find_run(), named):
        raise refusals.run_exists(command.dag_id, command.run_id)
    yield (
        s.add_run(),
        named
        | {
            "kind": command.kind.value,
            "conf": command.conf,
            "logical_date": rows.micros(command.logical_date),
            "data_interval_start": rows.micros(command.data_interval_start),
            "data_interval_end": rows.micros(command.data_interval_end),
        },
    )
    found = yield s.find_run(), named
    return found[0][0]  # type: ignore[no-any-return]


def create_run(context: Context, command: c.CreateRun) -> Steps[Run]:
    yield BEGIN
    named = {"dag_id": command.dag_id, "run_id": command.run_id}
    slot = {"dag_id": command.dag_id, "logical_date": rows.micros(command.logical_date)}
    if command.schedule:
        yield d.schedule_until(), slot
        if made := (yield s.run_of_date(backfilled=True), slot):
            return (yield from get_run(context, c.GetRun(command.dag_id, made[0][0])))
    elif command.kind is RunKind.BACKFILL:
        yield d.lock_dag(), {"dag_id": command.dag_id}
        if made := (yield s.run_of_date(backfilled=False), slot):
            raise refusals.run_exists(command.dag_id, made[0][0])
    if not command.schedule or not (yield s.find_run(), named):
        yield from add_run(command)
    return (yield from get_run(context, c.GetRun(command.dag_id, command.run_id)))


def get_run(context: Context, command: c.GetRun) -> Steps[Run]:
    found = yield s.run(), {"dag_id": command.dag_id, "run_id": command.run_id}
    if not found:
        raise refusals.unknown_run(command.dag_id, command.run_id)
    return run_rows.run(found[0])


def runs_query(command: c.ListRuns) -> Query:
    by_dag = command.dag_id is not None
    params: dict[str, Any] = {"dag_id": command.dag_id} if by_dag else {}
    params |= choices("state", command.states) | choices("kind", command.kinds)
    params |= window(command.limit, command.offset)
    kinds = len(command.kinds)
    return s.runs(by_dag, len(command.states), kinds, command.oldest_first), params


def list_runs(context: Context, command: c.ListRuns) -> Steps[tuple[Run, ...]]:
    select, params = runs_query(command)
    found, _ = yield from up_to_size((select, params), measured(select, "conf"), command.max_size)
    return tuple(run_rows.run(row) for row in found)


def unfinished_runs(context: Context, command: c.UnfinishedRuns) -> Steps[tuple[Unfinished, ...]]:
    return tuple(Unfinished(*row) for row in (yield s.unfinished_runs(), {}))


def claim_run(context: Context, command: c.ClaimRun) -> Steps[Run]:
    yield BEGIN
    dag_id, run_id = command.dag_id, command.run_id
    if command.most_running is not None:
        yield d.lock_dag(), {"dag_id": dag_id}
    run = yield from lock_run(dag_id, run_id)
    if run.kind == RunKind.EXTERNAL:
        raise refusals.run_external(dag_id, run_id)
    if RunState(run.state).ended:
        raise InvalidInput(
            f"run {dag_id}/{run_id} has ended: {run.state}",
            hint="clear the tasks that should run again: `holdfast tasks clear`",
        )
    if not free(run.owner, run.leased, command.process, command.dead):
        raise Conflict(
            f"run {dag_id}/{run_id} is being run by {run_rows.process(run.owner)}",
            hint="wait until that process has ended; its leases expire soon after",
        )
    if command.most_running is not None and run.state == RunState.QUEUED:
        [(running,)] = yield s.count_running(), {"dag_id": dag_id}
        if running >= command.most_running:
            raise Conflict(
                f"run {dag_id}/{run_id} must wait: {running} runs of its DAG are active",
                hint="it starts when one of them has ended; `max_active_runs` limits how many may "
                "run",
            )
    process = run_rows.process_column(command.process)
    lease = rows.microseconds(command.lease)
    yield s.claim_run(), {"run": run.id, "process": process, "lease": lease}
    return (yield from get_run(context, c.GetRun(dag_id, run_id)))


def finish_run(context: Context, command: c.FinishRun) -> Steps[None]:
    if not command.state.ended:
        raise InvalidInput(f"a run cannot end as `{command.state}`")
    yield BEGIN
    dag_id, run_id = command.dag_id, command.run_id
    run = yield from lock_run(dag_id, run_id)
    own = run.owner == run_rows.process_column(command.process)
    if own and run.state == command.state:
        return  # reported before, and only the response was lost
    if not own or RunState(run.state).ended:
        raise _not_held(dag_id, run_id, command.process, run)
    [(waiting,)] = yield s.waiting_tasks(), {"run": run.id}
    if waiting != command.waiting:
        raise Conflict(
            f"run {dag_id}/{run_id} cannot end yet: its tasks have changed",
            hint="some were cleared; read them again",
        )
    yield s.finish_run(), {"run": run.id, "end": command.state.value}
    if command.alert is not None:
        yield from raise_alert(AlertKind.RUN_FAILED, command.alert)


def report_waits(context: Context, command: c.ReportWaits) -> Steps[None]:
    yield BEGIN
    process = run_rows.process_column(command.process)
    waits = [
        {
            "dag_id": one.dag_id,
            "run_id": one.run_id,
            "process": process,
            "reasons": msgspec.json.encode(one.reasons).decode() if one.reasons else None,
        }
        for one in sorted(command.runs, key=lambda one: (one.dag_id, one.run_id))
    ]
    yield from each(s.report_waits(), waits)


def release_run(context: Context, command: c.ReleaseRun) -> Steps[None]:
    named = {"dag_id": command.dag_id, "run_id": command.run_id}
    yield s.release_run(), named | {"process": run_rows.process_column(command.process)}
