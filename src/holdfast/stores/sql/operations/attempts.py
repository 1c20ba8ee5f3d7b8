"""Attempts: their start, which fences off the one before, and their end."""

from __future__ import annotations

from itertools import groupby

from holdfast import command as c
from holdfast.entry import TaskWriter
from holdfast.stores import refusal
from holdfast.stores.sql import rows
from holdfast.stores.sql import statements as s
from holdfast.stores.sql.operations.entries import check_version, empty, entry_of, put
from holdfast.stores.sql.operations.scopes import Owner, find, lock_scope
from holdfast.stores.sql.operations.staging import staged_by
from holdfast.stores.sql.operations.steps import BEGIN, Context, Steps
from holdfast.value import larger


def start_attempt(context: Context, command: c.StartAttempt) -> Steps[int]:
    yield BEGIN
    shelf, by, params = find(command.scope)
    found = yield s.lock_owner(shelf, by), params
    if not found:
        raise refusal.unknown_task(command.scope)
    number = found[0][2] + 1
    yield s.end_attempts(), params | {"outcome": False}
    yield s.start_attempt(), params | {"number": number}
    yield s.add_attempt(), params | {"number": number}
    yield s.drop_staged(), params
    return number  # type: ignore[no-any-return]


def finish_attempt(context: Context, command: c.FinishAttempt) -> Steps[None]:
    yield BEGIN
    owner = yield from lock_scope(command.writer.scope, command.writer)
    if command.succeeded:
        staged = yield from staged_by(command.writer)
        for asset_id, writes in groupby(staged, key=lambda row: row[0]):
            yield from _apply(context, asset_id, list(writes), command.writer)
        if command.clear:
            yield from empty(context, owner, command.writer)
    yield from end_attempt(owner, command.succeeded)


def end_attempt(owner: Owner, succeeded: bool) -> Steps[None]:
    """The attempt may not write any more, and what it staged is gone."""
    params = {"owner": owner.id}
    yield s.drop_staged(), params
    yield s.end_live_attempt(), params
    yield s.end_attempts(), params | {"outcome": succeeded}


def _apply(
    context: Context, asset_id: int, staged: list[rows.Row], writer: TaskWriter
) -> Steps[None]:
    """The staged writes to one asset become one version of it."""
    info = rows.assets((yield s.asset_by_id(), {"owner": asset_id}))[0]
    owner = yield from lock_scope(info.scope, writer)
    values = []
    for _, key, value, advances, if_version in staged:
        if not advances:
            yield from check_version(owner, key, if_version)
        else:
            entry = yield from entry_of(owner, key)
            standing = entry.value if entry else None
            value = larger(standing, value, f"`{key}` of {info.scope}")
            if value is standing:
                continue
        values.append((key, value))
    if values:
        yield from put(context, owner, values, writer)
