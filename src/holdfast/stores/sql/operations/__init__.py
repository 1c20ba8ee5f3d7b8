"""What each command does in SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from holdfast import command as c
from holdfast.stores.sql.operations import (
    attempts,
    entries,
    expiry,
    history,
    listing,
    registry,
)
from holdfast.stores.sql.operations.steps import Context, Steps

Operation: TypeAlias = Callable[[Context, Any], Steps[Any]]

OPERATIONS: dict[type[c.Command[Any]], Operation] = {
    c.Get: entries.get,
    c.GetEntry: entries.get_entry,
    c.List: listing.list_,
    c.Set: entries.set_,
    c.SetMany: entries.set_many,
    c.Advance: history.advance,
    c.Delete: entries.delete,
    c.Clear: entries.clear,
    c.History: history.history,
    c.Rewind: history.rewind,
    c.RegisterTask: registry.register_task,
    c.ListTasks: registry.list_tasks,
    c.DeleteRun: registry.delete_run,
    c.DeclareAsset: registry.declare_asset,
    c.DeclareDagAssets: registry.declare_dag_assets,
    c.ListAssets: registry.list_assets,
    c.DeleteAsset: registry.delete_asset,
    c.StartAttempt: attempts.start_attempt,
    c.FinishAttempt: attempts.finish_attempt,
    c.Now: expiry.now,
    c.CountExpired: expiry.count_expired,
    c.ListExpired: expiry.list_expired,
    c.DeleteExpired: expiry.delete_expired,
    c.TakeExpired: expiry.take_expired,
    c.ListOrphans: expiry.list_orphans,
    c.DeleteOrphans: expiry.delete_orphans,
}
