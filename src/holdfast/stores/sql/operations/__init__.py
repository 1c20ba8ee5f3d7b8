"""SQL operation of each command."""

from __future__ import annotations

from functools import partial
from typing import Any

from holdfast import commands as c
from holdfast.commands import Guarded, Once
from holdfast.errors import NotSupported
from holdfast.stores.sql.operations import (
    asset_schedules,
    attempts,
    bulk,
    cleanup,
    counting,
    dags,
    entries,
    events,
    guards,
    history,
    leases,
    listing,
    marking,
    pools,
    purge_queue,
    registry,
    requests,
    results,
    runs,
    table_scans,
    tasks,
    watches,
)
from holdfast.stores.sql.operations.steps import Operation


def operation_for(command: c.Command[Any]) -> Operation:
    """Return the operation of the command. Raise NotSupported if there is none."""
    operation = OPERATIONS.get(type(command))
    if operation is None:
        raise NotSupported(
            f"Holdfast's own database does not support `{type(command).__name__}`",
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
    c.AssetChanges: registry.asset_changes,
    c.GetAsset: registry.get_asset,
    c.DeleteAsset: registry.delete_asset,
    c.StartAttempt: attempts.start_attempt,
    c.FinishAttempt: attempts.finish_attempt,
    c.Now: cleanup.now,
    c.Scan: table_scans.scan,
    c.PlanScan: table_scans.plan_scan,
    c.CountExpired: cleanup.count_expired,
    c.ListExpired: cleanup.list_expired,
    c.DeleteExpired: cleanup.delete_expired,
    c.TakeExpired: cleanup.take_expired,
    c.ListOrphans: cleanup.list_orphans,
    c.DeleteOrphans: cleanup.delete_orphans,
    c.SaveFile: dags.save_file,
    c.SaveFileError: dags.save_file_error,
    c.ForgetFile: dags.forget_file,
    c.SeeDags: dags.see_dags,
    c.RetireDags: dags.retire_dags,
    c.ListFiles: dags.list_files,
    c.ListDags: dags.list_dags,
    c.GetDag: dags.get_dag,
    c.PauseDag: dags.pause_dag,
    c.DeleteDag: dags.delete_dag,
    c.CreateRun: runs.create_run,
    c.CreateAssetRun: asset_schedules.create_asset_run,
    c.GetRun: runs.get_run,
    c.ListRuns: runs.list_runs,
    c.UnfinishedRuns: runs.unfinished_runs,
    c.ClaimRun: runs.claim_run,
    c.FinishRun: runs.finish_run,
    c.MarkRun: marking.mark_run,
    c.ReleaseRun: runs.release_run,
    c.ReportWaits: runs.report_waits,
    c.RunEvents: events.run_events,
    c.ListTaskInstances: tasks.list_task_instances,
    c.ChangeTasks: tasks.change_tasks,
    c.ClearTasks: tasks.clear_tasks,
    c.MarkTask: marking.mark_task,
    c.ListAttempts: tasks.list_attempts,
    c.Heartbeat: leases.heartbeat,
    c.InterruptAttempts: attempts.interrupt_attempts,
    c.TakeItem: tasks.take_item,
    c.PutResult: results.put_result,
    c.GetResults: results.get_results,
    c.EmitAssetEvent: events.emit_asset_event,
    c.ListAssetEvents: events.list_asset_events,
    c.Count: counting.count,
    c.AliasAssets: events.alias_assets,
    c.ListPools: pools.list_pools,
    c.SetPool: pools.set_pool,
    c.DeletePool: pools.delete_pool,
    c.ListWatches: watches.list_watches,
    c.StartWatch: watches.start_watch,
    c.Emit: partial(watches.emit, operation_for),
    c.StartLoad: bulk.start_load,
    c.AddToLoad: bulk.add_to_load,
    c.FinishLoad: bulk.finish_load,
    c.DropLoad: bulk.drop_load,
    c.ReserveObjects: purge_queue.reserve_objects,
    c.ReleaseObjects: purge_queue.release_objects,
    c.QueueObjects: purge_queue.queue_objects,
    c.TakePurges: purge_queue.take_purges,
    c.FinishPurges: purge_queue.finish_purges,
    c.CountPurges: purge_queue.count_purges,
    c.ForgetRequests: requests.forget_requests,
    Once: partial(requests.once, operation_for),
    Guarded: partial(guards.guarded, operation_for),
}
