"""Fencing: locks of a scope for a writer that may write, and refusal of attempts that are not live.

All writes to a scope lock its owner's row first, which carries what decides them: the attempt that
may write, whether the asset is active, and the revision, from which the write takes its version. So
writes to one scope are serialized, and a version is never reused, not even after its entry is gone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from holdfast.model.entry import TaskWriter, Writer
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.stores import refusals
from holdfast.stores.sql.operations.scopes import find, unknown
from holdfast.stores.sql.operations.steps import BEGIN, Steps
from holdfast.stores.sql.statements import entries as s
from holdfast.stores.sql.statements.scope_tables import TASKS, ScopeTables


class Owner(NamedTuple):
    """A scope's row, locked."""

    tables: ScopeTables
    id: Any
    revision: int
    scope: StoreScope


def begin(writer: Writer) -> Steps[None]:
    """Begin a transaction, and fence an attempt, which must stay the live one until commit."""
    yield BEGIN
    if isinstance(writer, TaskWriter):
        yield from fence(writer)


def open_scope(scope: StoreScope, writer: Writer) -> Steps[Owner]:
    """Begin a transaction, and lock the scope for a writer. Raise an error if it may not write."""
    yield BEGIN
    if isinstance(writer, TaskWriter) and writer.scope != scope:
        yield from fence(writer)
    return (yield from lock_scope(scope, writer))


def open_map_indices(scope: TaskScope, writer: Writer) -> Steps[list[Owner]]:
    """Begin a transaction, and lock every map index of the scope's task in its run."""
    yield from begin(writer)
    task = {"dag_id": scope.dag_id, "run_id": scope.run_id, "task_id": scope.task_id}
    owners = []
    for (ti_id,) in (yield s.map_indices(), task):
        found = yield s.lock_owner(TASKS, "ti_id"), {"owner": ti_id}
        owners += [Owner(TASKS, id, revision, scope) for id, revision, *_ in found]
    if not owners:
        raise refusals.unknown_task(scope)
    return owners


def lock_scope(scope: StoreScope, writer: Writer | None = None) -> Steps[Owner]:
    tables, by, params = find(scope)
    found = yield s.lock_owner(tables, by), params
    if not found:
        raise (yield from unknown(scope))
    id, revision, *facts = found[0]
    if isinstance(scope, AssetScope) and facts[0] is not None:
        raise refusals.inactive(scope)
    if isinstance(writer, TaskWriter) and writer.scope == scope:
        check_attempt(writer, *facts)
    return Owner(tables, id, revision, scope)


def count_write(owner: Owner) -> Steps[int]:
    """Take the scope's next version, and return it."""
    version = owner.revision + 1
    yield s.set_revision(owner.tables), {"owner": owner.id, "version": version}
    return version


def fence(writer: TaskWriter) -> Steps[None]:
    """Raise StaleAttempt unless the attempt is the live one; keep it live until commit."""
    if writer.attempt is None:
        return
    tables, by, params = find(writer.scope)
    found = yield s.lock_owner(tables, by, share=True), params
    if not found:
        raise refusals.unknown_task(writer.scope)
    check_attempt(writer, *found[0][2:])


def check_attempt(writer: TaskWriter, newest: int, live: int | None, reading: bool = False) -> None:
    """Raise StaleAttempt unless the attempt is the live one."""
    if writer.attempt is not None and writer.attempt != live:
        raise refusals.stale(writer, newest, live is not None, reading)
