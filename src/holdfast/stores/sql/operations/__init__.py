"""What each command does in SQL."""

from __future__ import annotations

from functools import partial
from typing import Any

from holdfast.commands import bulk as lc
from holdfast.commands import entries as c
from holdfast.commands import objects as pc
from holdfast.commands import runs as rc
from holdfast.commands.wrappers import Guarded, Once
from holdfast.errors import NotSupported
from holdfast.stores.sql.operations import (
    attempts,
    counting,
    dags,
    entries,
    events,
    expiry,
    history,
    leases,
    listing,
    registry,
    requests,
    results,
    runs,
    schedules,
    tasks,
    watches,
)
from holdfast.stores.sql.operations import bulk as loads
from holdfast.stores.sql.operations import objects as purging
from holdfast.stores.sql.operations import tables as scanning
from holdfast.stores.sql.operations import wrappers as guards
from holdfast.stores.sql.operations.steps import Operation


def operation_for(command: c.Command[Any]) -> Operation:
    """What the command does; NotSupported where that is nothing."""
    operation = OPERATIONS.get(type(command))
    if operation is None:
        raise NotSupported(
            f"the product's own database cannot do `{type(command).__name__}`",
            hint="this command is for custom backends",
        )
    return operation


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
    c.GetAsset: registry.get_asset,
    c.DeleteAsset: registry.delete_asset,
    c.StartAttempt: attempts.start_attempt,
    c.FinishAttempt: attempts.finish_attempt,
    c.Now: expiry.now,
    c.Scan: scanning.scan,
    c.PlanScan: scanning.plan_scan,
    c.CountExpired: expiry.count_expired,
    c.ListExpired: expiry.list_expired,
    c.DeleteExpired: expiry.delete_expired,
    c.TakeExpired: expiry.take_expired,
    c.ListOrphans: expiry.list_orphans,
    c.DeleteOrphans: expiry.delete_orphans,
    rc.SaveFile: dags.save_file,
    rc.SaveFileError: dags.save_file_error,
    rc.ForgetFile: dags.forget_file,
    rc.SeeDags: dags.see_dags,
    rc.RetireDags: dags.retire_dags,
    rc.ListFiles: dags.list_files,
    rc.ListDags: dags.list_dags,
    rc.GetDag: dags.get_dag,
    rc.PauseDag: dags.pause_dag,
    rc.CreateRun: runs.create_run,
    rc.CreateAssetRun: schedules.create_asset_run,
    rc.GetRun: runs.get_run,
    rc.ListRuns: runs.list_runs,
    rc.UnfinishedRuns: runs.unfinished_runs,
    rc.ClaimRun: runs.claim_run,
    rc.FinishRun: runs.finish_run,
    rc.ReleaseRun: runs.release_run,
    rc.RunEvents: events.run_events,
    rc.ListTaskInstances: tasks.list_task_instances,
    rc.ChangeTasks: tasks.change_tasks,
    rc.ClearTasks: tasks.clear_tasks,
    rc.MarkTask: tasks.mark_task,
    rc.ListAttempts: tasks.list_attempts,
    rc.Heartbeat: leases.heartbeat,
    rc.InterruptAttempts: attempts.interrupt_attempts,
    rc.TakeItem: tasks.take_item,
    rc.PutResult: results.put_result,
    rc.GetResults: results.get_results,
    rc.ListAssetEvents: events.list_asset_events,
    rc.Count: counting.count,
    rc.AliasAssets: events.alias_assets,
    rc.ListWatches: watches.list_watches,
    rc.StartWatch: watches.start_watch,
    rc.Emit: watches.emit,
    lc.StartLoad: loads.start_load,
    lc.AddToLoad: loads.add_to_load,
    lc.FinishLoad: loads.finish_load,
    lc.DropLoad: loads.drop_load,
    pc.ReserveObjects: purging.reserve_objects,
    pc.ReleaseObjects: purging.release_objects,
    pc.QueueObjects: purging.queue_objects,
    pc.TakePurges: purging.take_purges,
    pc.FinishPurges: purging.finish_purges,
    pc.CountPurges: purging.count_purges,
    c.ForgetRequests: requests.forget_requests,
    Once: partial(requests.once, operation_for),
    Guarded: partial(guards.guarded, operation_for),
}
