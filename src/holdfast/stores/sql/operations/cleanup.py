"""Cleanup of expired task entries, and of the state of orphaned assets."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from holdfast import commands as c
from holdfast.model.entry import AssetInfo, Expired
from holdfast.model.scope import AssetScope
from holdfast.stores.sql import rows
from holdfast.stores.sql.operations.steps import BEGIN, NO_LIMIT, Context, Steps, each
from holdfast.stores.sql.statements import assets as a
from holdfast.stores.sql.statements import entries as s
from holdfast.stores.sql.statements import expiry as x
from holdfast.stores.sql.statements import history as h
from holdfast.stores.sql.statements.scope_tables import ASSETS


def now(context: Context, command: c.Now) -> Steps[datetime]:
    return rows.instant((yield s.clock(), {})[0][0])


def count_expired(context: Context, command: c.CountExpired) -> Steps[int]:
    found = yield x.count_expired(), {"cutoff": rows.micros(command.cutoff)}
    return found[0][0]  # type: ignore[no-any-return]


def list_expired(context: Context, command: c.ListExpired) -> Steps[tuple[Expired, ...]]:
    params: dict[str, Any] = {"after_time": -NO_LIMIT, "after_id": 0}
    if command.after is not None:
        after = command.after
        params = {"after_time": rows.micros(after.expires_at), "after_id": after.id}
    params |= {"cutoff": rows.micros(command.cutoff), "limit": command.limit}
    return tuple(rows.expired(row) for row in (yield x.expired(), params))


def delete_expired(context: Context, command: c.DeleteExpired) -> Steps[int]:
    params: dict[str, Any] = {"cutoff": rows.micros(command.cutoff)}
    if not command.limit:
        gone = yield x.delete_expired(), params
    else:
        batch = x.delete_expired_batch(type(context.dialect), command.skip_held)
        gone = yield batch, params | {"limit": command.limit}
    return gone  # type: ignore[no-any-return]


def take_expired(context: Context, command: c.TakeExpired) -> Steps[tuple[Expired, ...]]:
    yield BEGIN
    params = {"cutoff": rows.micros(command.cutoff), "limit": command.limit}
    params |= {"after_time": -NO_LIMIT, "after_id": 0}
    found = yield x.lock_expired(type(context.dialect)), params
    yield from each(x.delete_entry(), [{"row": row[0]} for row in found])
    return tuple(rows.expired(row) for row in found)


def list_orphans(context: Context, command: c.ListOrphans) -> Steps[tuple[AssetInfo, ...]]:
    return rows.assets((yield a.orphans(), {"cutoff": rows.micros(command.cutoff)}))


def delete_orphans(context: Context, command: c.DeleteOrphans) -> Steps[int]:
    orphans = yield from lock_orphans(command)
    for scope in orphans:
        yield s.delete_all(ASSETS), {"owner": scope.asset_id}
        yield h.delete_history(), {"owner": scope.asset_id}
        yield from mark_swept(scope)
    return len(orphans)


def lock_orphans(command: c.DeleteOrphans) -> Steps[list[AssetScope]]:
    """Begin a transaction, and lock the assets to be swept."""
    yield BEGIN
    found = yield a.lock_orphans(), {"cutoff": rows.micros(command.cutoff)}
    return [AssetScope(*row) for row in found]


def mark_swept(scope: AssetScope) -> Steps[None]:
    yield a.mark_swept(), {"owner": scope.asset_id}
