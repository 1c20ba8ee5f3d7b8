"""Construction of the context of a task or callback."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from holdfast.accessor.task_store import TaskStore
from holdfast.model.run import Run
from holdfast.model.scope import AssetScope
from holdfast.runner.protocol.messages import TaskStartup
from holdfast.sdk.asset import AssetAlias
from holdfast.sdk.asset_stores import AssetStores
from holdfast.sdk.context import ASSET_STORE, TASK_STORE, TaskContext
from holdfast.sdk.dag import DAG
from holdfast.sdk.dag_run import DagRun
from holdfast.sdk.events import OutletEvents, TriggeringEvents
from holdfast.sdk.node import TaskNode, params_of
from holdfast.sdk.param import Param, overlay
from holdfast.sdk.task_instance import TaskInstance
from holdfast.store import Store


def run_context(run: Run, store: Store, dag: DAG, params: dict[str, Param]) -> TaskContext:
    """Return the context that all tasks of a run have in common."""
    dag_run = DagRun.of(run)
    context = TaskContext(
        dag=dag,
        dag_run=dag_run,
        run_id=run.run_id,
        logical_date=run.logical_date,
        data_interval_start=run.data_interval_start,
        data_interval_end=run.data_interval_end,
        params=overlay(params, dag_run.conf),
        triggering_asset_events=TriggeringEvents(store, run.dag_id, run.run_id),
    )
    date = run.logical_date
    if date is not None:
        context |= {
            "ds": f"{date:%Y-%m-%d}",
            "ds_nodash": f"{date:%Y%m%d}",
            "ts": date.isoformat(),
            "ts_nodash": f"{date:%Y%m%dT%H%M%S}",
            "ts_nodash_with_tz": date.isoformat().replace("-", "").replace(":", ""),
        }
    return context


def task_context(startup: TaskStartup, store: Store, dag: DAG, task: TaskNode) -> TaskContext:
    """Return the context of one task instance."""
    context = run_context(startup.run, store, dag, params_of(task))
    ti = TaskInstance(startup.writer, startup.max_tries, store, task)
    owner = f"task `{task.task_id}`"
    context |= {
        "task": task,
        "ti": ti,
        "task_instance": ti,
        "task_instance_key_str": ti.key,
        "try_number": ti.try_number,
        "inlets": task.inlets,
        "outlets": task.outlets,
        "outlet_events": OutletEvents(owner, task.outlets),
    }
    writer, rules = startup.writer, startup.rules
    context |= dict.fromkeys(TASK_STORE, TaskStore(store, writer.scope, writer, rules))
    assets = list(_assets(task, startup.aliases))
    aliases = [inlet.name for inlet in task.inlets if isinstance(inlet, AssetAlias)]
    if assets or aliases:
        stores = AssetStores(store, owner, assets, writer, rules, aliases)
        context |= dict.fromkeys(ASSET_STORE, stores)
    return context


def _assets(task: TaskNode, aliases: Mapping[str, Sequence[AssetScope]]) -> Iterator[AssetScope]:
    """Yield the concrete assets that a task declares.

    The assets behind an alias among its outlets are known only once the task has reported them.
    """
    for inlet in task.inlets:
        if isinstance(inlet, AssetAlias):
            for scope in aliases.get(inlet.name, ()):
                yield AssetScope(name=scope.name, uri=scope.uri)
        else:
            yield AssetScope(name=inlet.name, uri=inlet.uri)
    for outlet in task.outlets:
        if not isinstance(outlet, AssetAlias):
            yield AssetScope(name=outlet.name, uri=outlet.uri)
