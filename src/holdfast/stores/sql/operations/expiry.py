"""What has outlived its time: expired task entries, and the state of assets nobody declares."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from holdfast import command as c
from holdfast.entry import AssetInfo, Expired
from holdfast.stores.sql import rows
from holdfast.stores.sql import statements as s
from holdfast.stores.sql.operations.steps import BEGIN, NO_LIMIT, Context, Steps


def now(context: Context, command: c.Now) -> Steps[datetime]:
    return rows.instant((yield s.clock(), {})[0][0])


def count_expired(context: Context, command: c.CountExpired) -> Steps[int]:
    found = yield s.count_expired(), {"cutoff": rows.micros(command.cutoff)}
    return found[0][0]  # type: ignore[no-any-return]


def list_expired(context: Context, command: c.ListExpired) -> Steps[tuple[Expired, ...]]:
    params: dict[str, Any] = {"after_time": -NO_LIMIT, "after_id": 0}
    if command.after is not None:
        after = command.after
        params = {"after_time": rows.micros(after.expires_at), "after_id": after.id}
    params |= {"cutoff": rows.micros(command.cutoff), "limit": command.limit}
    return tuple(rows.expired(row) for row in (yield s.expired(), params))


def delete_expired(context: Context, command: c.DeleteExpired) -> Steps[int]:
    params: dict[str, Any] = {"cutoff": rows.micros(command.cutoff)}
    if not command.limit:
        gone = yield s.delete_expired(), params
    else:
        batch = s.delete_expired_batch(type(context.dialect), command.skip_held)
        gone = yield batch, params | {"limit": command.limit}
    return gone  # type: ignore[no-any-return]


def take_expired(context: Context, command: c.TakeExpired) -> Steps[tuple[Expired, ...]]:
    yield BEGIN
    params = {"cutoff": rows.micros(command.cutoff), "limit": command.limit}
    params |= {"after_time": -NO_LIMIT, "after_id": 0}
    found = yield s.lock_expired(type(context.dialect)), params
    if found:
        yield s.delete_entry(), [{"row": row[0]} for row in found]
    return tuple(rows.expired(row) for row in found)


def list_orphans(context: Context, command: c.ListOrphans) -> Steps[tuple[AssetInfo, ...]]:
    return rows.assets((yield s.orphans(with_state=True), {"cutoff": rows.micros(command.cutoff)}))


def orphans(cutoff: datetime) -> Steps[tuple[AssetInfo, ...]]:
    """Every asset deactivated by the cut-off, wherever its state is."""
    return rows.assets((yield s.orphans(with_state=False), {"cutoff": rows.micros(cutoff)}))


def delete_orphans(context: Context, command: c.DeleteOrphans) -> Steps[int]:
    yield BEGIN
    gone = 0
    found = yield s.lock_orphans(), {"cutoff": rows.micros(command.cutoff)}
    for (id,) in found:
        gone += yield s.delete_all(s.ASSETS), {"owner": id}
        yield s.delete_history(), {"owner": id}
    return gone
