"""Attempts: their start, which fences off the previous one, and their end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from holdfast import commands as c
from holdfast.errors import StaleAttempt
from holdfast.model.entry import Writer
from holdfast.model.run import (
    RETURN_VALUE,
    AttemptInfo,
    Ending,
    Outcome,
    TaskState,
)
from holdfast.model.scope import TaskScope
from holdfast.stores import refusals
from holdfast.stores.sql import rows, run_rows
from holdfast.stores.sql.operations import pools, results
from holdfast.stores.sql.operations.entries import empty as empty_entries
from holdfast.stores.sql.operations.fencing import Owner, open_scope
from holdfast.stores.sql.operations.runs import (
    lock_external_run,
    lock_held_run,
    settle_external_run,
)
from holdfast.stores.sql.operations.scopes import find
from holdfast.stores.sql.operations.staged_commit import Apply, apply_staged, take_effect
from holdfast.stores.sql.operations.steps import BEGIN, Context, Steps
from holdfast.stores.sql.statements import entries as s
from holdfast.stores.sql.statements import runs as r
from holdfast.stores.sql.statements import staging as g

Empty: TypeAlias = Callable[[Context, Owner, Writer], Steps[None]]
"""Function that deletes all entries of a scope whose row is locked."""

_SUPERSEDED = Ending(
    outcome=Outcome.INTERRUPTED, state=TaskState.RUNNING, error="a newer attempt has begun"
)


def start_attempt(context: Context, command: c.StartAttempt) -> Steps[int]:
    external = yield from lock_external_run(command.scope.dag_id, command.scope.run_id)
    owner, newest, live = yield from _lock(command.scope)
    params: dict[str, Any] = {"owner": owner.id}
    worker = run_rows.process_column(command.worker)
    [(state, _)] = yield r.task_state(), params
    if command.after not in (None, newest):
        mine = yield r.open_attempt(), params | {"attempt": live}
        if worker is None or list(mine) != [(command.after + 1, worker)]:
            raise refusals.overtaken(command.scope, newest)
        return newest  # the answer to this command was lost, and it was sent again
    if external is None and state is not None and TaskState(state).ended:
        raise StaleAttempt(f"{command.scope} has ended: {state}", hint="clear it to run it again")
    yield from close_attempts(owner, _SUPERSEDED)
    yield from pools.take_slots(context, command)
    yield r.drop_results(), params
    if external is not None:
        yield r.start_external_run(), {"run": external}
    params["number"] = newest + 1
    yield r.start_task(), params
    lease = rows.microseconds(command.lease)
    taken = {"pool": command.pool, "pool_slots": command.pool_slots if command.pool else None}
    yield r.add_attempt(), params | taken | {"process": worker, "lease": lease}
    return newest + 1


def _lock(scope: TaskScope) -> Steps[tuple[Owner, int, int | None]]:
    """Lock the task instance; return it with its newest and its live attempt. Raise
    UnknownTaskInstance if it does not exist."""
    tables, by, params = find(scope)
    found = yield s.lock_owner(tables, by), params
    if not found:
        raise refusals.unknown_task(scope)
    id, revision, newest, live = found[0]
    return Owner(tables, id, revision, scope), newest, live


def finish_attempt(
    context: Context,
    command: c.FinishAttempt,
    apply: Apply = apply_staged,
    empty: Empty = empty_entries,
) -> Steps[None]:
    writer = command.writer
    external = yield from lock_external_run(writer.scope.dag_id, writer.scope.run_id)
    owner = yield from open_scope(writer.scope, writer)
    ending = command.ending or _plain(command.succeeded)
    if command.succeeded:
        yield from take_effect(context, writer, ending.events, apply)
        if ending.result is not None:
            yield from results.keep(context, owner, RETURN_VALUE, ending.result)
        if command.clear:
            yield from empty(context, owner, writer)
    yield from end_attempt(owner, ending)
    yield from settle_external_run(external)


def _plain(succeeded: bool) -> Ending:
    if succeeded:
        return Ending(outcome=Outcome.SUCCESS, state=TaskState.SUCCESS)
    return Ending(outcome=Outcome.FAILED, state=TaskState.FAILED)


def end_attempt(owner: Owner, ending: Ending) -> Steps[None]:
    """End the attempt, which may not write any more, and set the task instance's state."""
    yield from close_attempts(owner, ending)
    failed = int(ending.outcome is Outcome.FAILED)
    interrupted = int(ending.outcome is Outcome.INTERRUPTED and not ending.orderly)
    yield r.end_task(), settled(owner, ending, failed, interrupted)


def close_attempts(owner: Owner, ending: Ending) -> Steps[None]:
    """End any open attempt, and drop its staged writes."""
    params = {"owner": owner.id}
    yield g.drop_staged(), params
    yield (
        r.end_attempts(),
        params
        | {
            "result": ending.outcome.value,
            "reason": ending.error or None,
            "exit_status": ending.exit_status,
            "signal": ending.signal,
        },
    )


def settled(owner: Owner, ending: Ending, failed: int, interrupted: int) -> dict[str, Any]:
    """Return the parameters that set the task instance's state, and update its counters."""
    return {
        "owner": owner.id,
        "end": ending.state.value,
        "ready": rows.micros(ending.ready_at),
        "reason": ending.error or None,
        "failed": failed,
        "interrupted": interrupted,
    }


def interrupt_attempts(
    context: Context, command: c.InterruptAttempts
) -> Steps[tuple[AttemptInfo, ...]]:
    yield BEGIN
    dag_id, run_id = command.dag_id, command.run_id
    run = yield from lock_held_run(dag_id, run_id, command.process)
    interrupted: list[AttemptInfo] = []
    for task_id, map_index, number in (yield r.supervised_tasks(command.expired), {"run": run}):
        scope = TaskScope(dag_id, run_id, task_id, map_index)
        owner, _, live = yield from _lock(scope)
        if live != number:
            continue  # it has reported its end meanwhile
        task = {"owner": owner.id}
        [(_, before)] = yield r.task_state(), task
        state = TaskState.SCHEDULED if before + 1 < command.limit else TaskState.FAILED
        reason = command.reason
        if state is TaskState.FAILED:
            reason += f", {command.limit} times in a row"
        ending = Ending(outcome=Outcome.INTERRUPTED, state=state, error=reason)
        yield from end_attempt(owner, ending)
        found = [run_rows.attempt(row, scope) for row in (yield r.attempts(), task)]
        interrupted += (info for info in found if info.number == number)
    return tuple(interrupted)
