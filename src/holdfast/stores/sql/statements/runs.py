"""Statements for runs, their task instances, attempts and results.

Parameters that every statement may use: `run` (a run's row), `owner` (a task instance), `process`
(the one that holds or asks), `lease` (in microseconds), `now`.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Any

import sqlalchemy as sa

from holdfast.model.run import RunKind, RunState, TaskState
from holdfast.stores.sql import tables as t
from holdfast.stores.sql.dialects.base import Dialect, given, now
from holdfast.stores.sql.statements.deletion import reached_before
from holdfast.stores.sql.statements.scope_tables import Select

leased_until: sa.ColumnElement[int] = now + sa.bindparam("lease", type_=sa.BigInteger())


def one_of(column: sa.Column[Any], count: int) -> sa.ColumnElement[bool]:
    """Return the condition that the column has a value of `{its name}_is_0`, `…_1` and so on."""
    return column.in_([sa.bindparam(f"{column.name}_is_{i}") for i in range(count)])


def _named_run() -> sa.ColumnElement[bool]:
    c = t.run.c
    return sa.and_(c.dag_id == sa.bindparam("dag_id"), c.run_id == sa.bindparam("run_id"))


def _change_run(**values: Any) -> sa.Update:
    return sa.update(t.run).where(t.run.c.id == sa.bindparam("run")).values(**values)


def _this_task() -> sa.ColumnElement[bool]:
    return t.task_instance.c.ti_id == sa.bindparam("owner")


def _change_task(**values: Any) -> sa.Update:
    return sa.update(t.task_instance).where(_this_task()).values(**values)


def _columns(table: sa.Table, *names: str) -> list[sa.Column[Any]]:
    return [table.c[name] for name in names]


def _run_columns() -> list[sa.Column[Any]]:
    return _columns(
        t.run,
        *("dag_id", "run_id", "kind", "state"),
        *("logical_date", "data_interval_start", "data_interval_end", "conf"),
        *("created_at", "started_at", "ended_at", "owner", "leased_until", "error"),
    )


@cache
def add_external_run(dialect: type[Dialect]) -> Any:
    states = {"kind": RunKind.EXTERNAL.value, "state": RunState.IDLE.value}
    new = dialect().insert_new(t.run)
    return new.values(**given("dag_id", "run_id"), **states, created_at=now)


@cache
def add_run() -> sa.Insert:
    dates = ("logical_date", "data_interval_start", "data_interval_end")
    values = given("dag_id", "run_id", "kind", "conf", *dates)
    return sa.insert(t.run).values(**values, state=RunState.QUEUED.value, created_at=now)


@cache
def find_run() -> Select:
    return sa.select(t.run.c.id).where(_named_run())


@cache
def run_of_date(backfilled: bool) -> Select:
    """Select the id of a run for a logical date, of any kind or created by a backfill."""
    c = t.run.c
    made = [c.dag_id == sa.bindparam("dag_id"), c.logical_date == sa.bindparam("logical_date")]
    if backfilled:
        made.append(c.kind == RunKind.BACKFILL.value)
    return sa.select(c.run_id).where(*made).limit(1)


@cache
def run() -> Select:
    return sa.select(*_run_columns()).where(_named_run())


@cache
def runs(by_dag: bool, states: int, kinds: int, oldest_first: bool) -> Select:
    c = t.run.c
    select = sa.select(*_run_columns())
    if by_dag:
        select = select.where(c.dag_id == sa.bindparam("dag_id"))
    if states:
        select = select.where(one_of(c.state, states))
    if kinds:
        select = select.where(one_of(c.kind, kinds))
    select = select.order_by(c.id if oldest_first else c.id.desc())
    return select.limit(sa.bindparam("limit")).offset(sa.bindparam("offset"))


@cache
def unfinished_runs() -> Select:
    c = t.run.c
    queued, running = RunState.QUEUED.value, RunState.RUNNING.value
    counts = [sa.func.count(sa.case((c.state == state, 1))) for state in (queued, running)]
    unfinished = sa.or_(c.state == queued, c.state == running), c.kind != RunKind.EXTERNAL.value
    return sa.select(c.dag_id, *counts).where(*unfinished).group_by(c.dag_id).order_by(c.dag_id)


def _count_runs(*states: RunState) -> Select:
    """Select the number of a DAG's runs in these states, without external ones."""
    c = t.run.c
    in_state = c.state.in_([sa.literal(state.value) for state in states])
    of_dag = c.dag_id == sa.bindparam("dag_id"), c.kind != RunKind.EXTERNAL.value
    return sa.select(sa.func.count()).select_from(t.run).where(*of_dag, in_state)


@cache
def count_running() -> Select:
    return _count_runs(RunState.RUNNING)


@cache
def count_unfinished() -> Select:
    return _count_runs(RunState.QUEUED, RunState.RUNNING)


@cache
def lock_run() -> Select:
    """Select the run's id and what decides who may change it, locked until commit."""
    c = t.run.c
    return (
        sa.select(c.id, c.kind, c.state, c.owner, c.leased_until > now)
        .where(_named_run())
        .with_for_update(key_share=True)
    )


@cache
def lock_external_run() -> Select:
    """Select the id of a run, locked until commit, if it is external."""
    select = sa.select(t.run.c.id).where(_named_run(), t.run.c.kind == RunKind.EXTERNAL.value)
    return select.with_for_update(key_share=True)


@cache
def start_external_run() -> sa.Update:
    return _change_run(
        state=RunState.RUNNING.value,
        started_at=sa.func.coalesce(t.run.c.started_at, now),
        ended_at=sa.null(),
    )


@cache
def settle_external_run() -> sa.Update:
    """Set the state of an external run to that of its task instances."""
    unfinished = _has_task(state for state in TaskState if not state.ended)
    failed = _has_task((TaskState.FAILED, TaskState.UPSTREAM_FAILED))
    running = RunState.RUNNING.value
    state = sa.case(
        (unfinished, running), (failed, RunState.FAILED.value), else_=RunState.SUCCESS.value
    )
    return _change_run(state=state, ended_at=sa.case((unfinished, sa.null()), else_=now))


def _has_task(states: Iterable[TaskState]) -> sa.ColumnElement[bool]:
    c = t.task_instance.c
    in_state = c.state.in_([sa.literal(state.value) for state in states])
    return sa.exists().where(c.run == sa.bindparam("run"), in_state)


@cache
def claim_run() -> sa.Update:
    return _change_run(
        owner=sa.bindparam("process"),
        leased_until=leased_until,
        state=RunState.RUNNING.value,
        started_at=sa.func.coalesce(t.run.c.started_at, now),
        waits=sa.null(),
    )


@cache
def waiting_tasks() -> Select:
    """Select the number of task instances of a run that have not ended."""
    c = t.task_instance.c
    unfinished = [sa.literal(state.value) for state in TaskState if not state.ended]
    return (
        sa.select(sa.func.count())
        .select_from(t.task_instance)
        .where(c.run == sa.bindparam("run"), c.state.in_(unfinished))
    )


@cache
def finish_run() -> sa.Update:
    """End the run. The owner stays: only the process that ended it may report its end again."""
    return _change_run(leased_until=sa.null(), ended_at=now, state=sa.bindparam("end"))


@cache
def mark_run() -> sa.Update:
    """End the run for a person. It has no owner then, so its process loses it."""
    return _change_run(
        owner=sa.null(),
        leased_until=sa.null(),
        ended_at=sa.func.coalesce(t.run.c.ended_at, now),
        state=sa.bindparam("end"),
        error=sa.bindparam("reason"),
    )


@cache
def queue_run() -> sa.Update:
    """Queue a run that had ended, to be claimed again."""
    unknown = ("owner", "leased_until", "started_at", "ended_at", "error")
    return _change_run(**dict.fromkeys(unknown, sa.null()), state=RunState.QUEUED.value)


def _held() -> sa.ColumnElement[bool]:
    return sa.and_(_named_run(), t.run.c.owner == sa.bindparam("process"))


@cache
def release_run() -> sa.Update:
    nobody = {"owner": sa.null(), "leased_until": sa.null()}
    return sa.update(t.run).where(_held(), t.run.c.ended_at.is_(None)).values(**nobody)


@cache
def renew_run() -> sa.Update:
    unfinished = t.run.c.ended_at.is_(None)
    return sa.update(t.run).where(_held(), unfinished).values(leased_until=leased_until)


@cache
def report_waits() -> sa.Update:
    return sa.update(t.run).where(_held()).values(waits=sa.bindparam("reasons"))


@cache
def held_run() -> Select:
    """Select the run, if the process holds it or has ended it."""
    return sa.select(t.run.c.id).where(_held())


@cache
def delete_run() -> sa.Delete:
    return sa.delete(t.run).where(_named_run())


@cache
def tasks_of_run() -> Select:
    c = t.task_instance.c
    return (
        sa.select(c.task_id, c.map_index)
        .select_from(t.task_instance.join(t.run))
        .where(_named_run())
        .order_by(c.task_id, c.map_index)
    )


@cache
def lock_run_to_delete() -> Select:
    """Select the run's id and what decides whether it may be deleted, locked until commit; no task
    instance is added to the run meanwhile."""
    c = t.run.c
    return find_run().add_columns(c.state, c.owner, c.leased_until > now).with_for_update()


@cache
def lock_tasks_of_run() -> Select:
    """Select ids, revisions and newest attempts of a run's task instances; locked until commit."""
    c = t.task_instance.c
    select = sa.select(c.ti_id, c.revision, c.attempt).where(c.run == sa.bindparam("run"))
    return select.order_by(c.ti_id).with_for_update()


@cache
def lock_tasks(columns: frozenset[str]) -> Select:
    """Select task instances of a run that were not removed, filtered by the named columns; locked
    until commit."""
    c = t.task_instance.c
    present = sa.or_(c.state.is_(None), c.state != TaskState.REMOVED.value)
    select = sa.select(c.ti_id, c.revision, c.task_id, c.map_index, c.state, c.attempt)
    select = select.where(c.run == sa.bindparam("run"), present)
    for name in sorted(columns):
        select = select.where(c[name] == sa.bindparam(name))
    return select.order_by(c.ti_id).with_for_update(key_share=True)


@cache
def map_indices_of_task() -> Select:
    c = t.task_instance.c
    of_task = sa.and_(c.run == sa.bindparam("run"), c.task_id == sa.bindparam("task_id"))
    return sa.select(c.map_index).where(of_task)


@cache
def task_instances(conditions: frozenset[str], states: int) -> Select:
    """Select task instances, filtered by the named columns of the run or of the task instance."""
    ti, r = t.task_instance.c, t.run.c
    order = [r.dag_id, r.run_id, ti.task_id, ti.map_index]
    facts = _columns(
        t.task_instance,
        *("state", "attempt", "failures", "interruptions"),
        *("ready_at", "started_at", "ended_at", "error"),
    )
    waits = sa.case((r.leased_until > now, r.waits))
    select = sa.select(*order, *facts, waits).select_from(t.task_instance.join(t.run))
    for name in sorted(conditions):
        column = r[name] if name in r else ti[name]
        select = select.where(column == sa.bindparam(name))
    if states:
        select = select.where(one_of(ti.state, states))
    select = select.order_by(*order)
    return select.limit(sa.bindparam("limit")).offset(sa.bindparam("offset"))


@cache
def add_task_instance(dialect: type[Dialect]) -> Any:
    new = dialect().insert_new(t.task_instance)
    return new.values(
        **given("run", "task_id", "map_index"),
        ti_id=sa.bindparam("owner"),
        revision=reached_before("revision", sa.bindparam("run")),
        attempt=reached_before("attempt", sa.bindparam("run")),
    )


@cache
def task_state() -> Select:
    """Select the task instance's state and its interruptions."""
    return sa.select(*_columns(t.task_instance, "state", "interruptions")).where(_this_task())


@cache
def change_task() -> sa.Update:
    """Change the state, unless the task runs or has ended; a removed task may come back."""
    c = t.task_instance.c
    open_states = (TaskState.SCHEDULED, TaskState.UP_FOR_RETRY, TaskState.REMOVED)
    waiting = [sa.literal(state.value) for state in open_states]
    ended = sa.bindparam("ended", type_=sa.Integer()) == sa.literal(1, sa.Integer())
    change = _change_task(
        state=sa.bindparam("change"),
        error=sa.bindparam("reason"),
        ended_at=sa.case((ended, now), else_=sa.null()),
    )
    return change.where(sa.or_(c.state.is_(None), c.state.in_(waiting)))


@cache
def clear_task() -> sa.Update:
    """Reset the task as if it had never run, except for the number of its attempts."""
    unknown = ("live_attempt", "ready_at", "started_at", "ended_at", "error")
    return _change_task(
        **dict.fromkeys(unknown, sa.null()),
        state=TaskState.SCHEDULED.value,
        failures=0,
        interruptions=0,
    )


@cache
def start_task() -> sa.Update:
    return _change_task(
        **dict.fromkeys(("ready_at", "ended_at", "error"), sa.null()),
        attempt=sa.bindparam("number"),
        live_attempt=sa.bindparam("number"),
        state=TaskState.RUNNING.value,
        started_at=now,
    )


@cache
def end_task() -> sa.Update:
    """End the task; `failed` and `interrupted` are 1 if the attempt was, and 0 otherwise."""
    c = t.task_instance.c
    interrupted = sa.bindparam("interrupted", type_=sa.Integer())
    return _change_task(
        live_attempt=sa.null(),
        state=sa.bindparam("end"),
        ready_at=sa.bindparam("ready"),
        ended_at=now,
        error=sa.bindparam("reason"),
        failures=c.failures + sa.bindparam("failed", type_=sa.Integer()),
        interruptions=(c.interruptions + 1) * interrupted,
    )


@cache
def add_attempt() -> sa.Insert:
    who: dict[str, Any] = {"ti_id": sa.bindparam("owner"), "worker": sa.bindparam("process")}
    return sa.insert(t.attempt).values(
        **who,
        **given("number", "pool", "pool_slots"),
        started_at=now,
        leased_until=leased_until,
    )


@cache
def end_attempts() -> sa.Update:
    """End the owner's open attempts: the live one, or one whose end was never reported."""
    c = t.attempt.c
    return (
        sa.update(t.attempt)
        .where(c.ti_id == sa.bindparam("owner"), c.ended_at.is_(None))
        .values(
            **given("exit_status", "signal"),
            ended_at=now,
            outcome=sa.bindparam("result"),
            error=sa.bindparam("reason"),
        )
    )


def _open_attempt() -> sa.ColumnElement[bool]:
    c = t.attempt.c
    this = sa.and_(c.ti_id == sa.bindparam("owner"), c.number == sa.bindparam("attempt"))
    return sa.and_(this, c.ended_at.is_(None))


@cache
def renew_attempt() -> sa.Update:
    return sa.update(t.attempt).where(_open_attempt()).values(leased_until=leased_until)


@cache
def open_attempt() -> Select:
    return sa.select(t.attempt.c.number, t.attempt.c.worker).where(_open_attempt())


@cache
def supervised_tasks(expired: bool) -> Select:
    """Select the task instances of a run with a live attempt that a runner started; with `expired`,
    only those whose lease has expired."""
    ti, a = t.task_instance.c, t.attempt.c
    live = sa.and_(a.ti_id == ti.ti_id, a.number == ti.live_attempt)
    supervised = sa.or_(a.worker.is_not(None), a.leased_until.is_not(None))
    return (
        sa.select(ti.task_id, ti.map_index, a.number)
        .select_from(t.task_instance.join(t.attempt, live))
        .where(
            ti.run == sa.bindparam("run"),
            a.leased_until <= now if expired else supervised,
        )
        .order_by(ti.ti_id)
    )


@cache
def attempts() -> Select:
    c = t.attempt.c
    facts = ("outcome", "error", "exit_status", "signal", "worker")
    return (
        sa.select(*_columns(t.attempt, "number", "started_at", "ended_at", *facts))
        .where(c.ti_id == sa.bindparam("owner"))
        .order_by(c.number)
    )


@cache
def mapped_item() -> Select:
    return sa.select(t.mapped_item.c.digest).where(t.mapped_item.c.ti_id == sa.bindparam("owner"))


@cache
def set_mapped_item(dialect: type[Dialect]) -> Any:
    return dialect().upsert(t.mapped_item, ["ti_id"]).values(ti_id=sa.bindparam("owner"))


@cache
def put_result(dialect: type[Dialect]) -> Any:
    return dialect().upsert(t.result, ["ti_id", "key"]).values(ti_id=sa.bindparam("owner"))


@cache
def drop_results() -> sa.Delete:
    return sa.delete(t.result).where(t.result.c.ti_id == sa.bindparam("owner"))


@cache
def results(one_index: bool) -> Select:
    ti, c = t.task_instance.c, t.result.c
    select = (
        sa.select(ti.map_index, c.value)
        .select_from(t.result.join(t.task_instance).join(t.run))
        .where(_named_run(), ti.task_id == sa.bindparam("task_id"), c.key == sa.bindparam("key"))
        .where(ti.map_index > sa.bindparam("after"))
        .order_by(ti.map_index)
        .limit(sa.bindparam("limit"))
    )
    return select.where(ti.map_index == sa.bindparam("map_index")) if one_index else select
