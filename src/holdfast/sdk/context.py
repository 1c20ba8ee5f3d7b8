"""Context of a running task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, TypedDict, cast

from holdfast.errors import MissingKey, OutsideTask, UndeclaredAsset

if TYPE_CHECKING:
    from holdfast.accessor.task_store import TaskStore
    from holdfast.sdk.asset_stores import AssetStores
    from holdfast.sdk.dag import DAG
    from holdfast.sdk.dag_run import DagRun
    from holdfast.sdk.events import OutletEvents, TriggeringEvents
    from holdfast.sdk.node import TaskNode
    from holdfast.sdk.task_instance import TaskInstance


class Context(TypedDict, total=False):
    """The keys of a task's context, which are also available as parameters of these names."""

    dag: DAG
    dag_run: DagRun
    run_id: str
    logical_date: datetime | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    ds: str
    ds_nodash: str
    ts: str
    ts_nodash: str
    ts_nodash_with_tz: str
    params: dict[str, Any]
    task: TaskNode
    ti: TaskInstance
    task_instance: TaskInstance
    task_instance_key_str: str
    try_number: int
    inlets: list[Any]
    outlets: list[Any]
    outlet_events: OutletEvents
    triggering_asset_events: TriggeringEvents
    task_store: TaskStore
    task_state: TaskStore
    task_state_store: TaskStore
    asset_store: AssetStores
    asset_state: AssetStores
    asset_state_store: AssetStores
    spark: Any
    job_intent: str
    exception: BaseException | str | None
    reason: str


KEYS = frozenset(Context.__annotations__)

TASK_STORE = ("task_store", "task_state", "task_state_store")
ASSET_STORE = ("asset_store", "asset_state", "asset_state_store")
"""The keys of each store in the context."""

NOT_HERE = {
    "inlet_events": "the state of an inlet is in its asset store; the events that started the "
    "run are in triggering_asset_events",
    "conn": "use environment variables, or the client library of the system",
    "var": "use params of the DAG, or environment variables",
    "macros": "import datetime and other modules directly",
    "prev_data_interval_start_success": "store a watermark in the asset store",
    "prev_data_interval_end_success": "store a watermark in the asset store",
    "prev_start_date_success": "store the data for the next run in the asset store",
    "prev_end_date_success": "store the data for the next run in the asset store",
}
"""Keys of Airflow's context that Holdfast does not have, with what to use instead."""

_DATES = ("ds", "ds_nodash", "ts", "ts_nodash", "ts_nodash_with_tz")


class TaskContext(dict[str, Any]):
    """A dict whose KeyError explains the absence of a key that a task might expect."""

    def __missing__(self, key: str) -> Any:
        raise self.absent(key)

    def might_have(self, key: object) -> bool:
        """Return whether the key is absent and a task may expect it here."""
        if not isinstance(key, str):
            return False
        return key not in self and (key in KEYS or key in NOT_HERE)

    def absent(self, key: str) -> Exception:
        """Return the exception, always a KeyError, that explains why the key is absent."""
        task = self.get("task")
        name = f"task `{task.task_id}`" if task else "this context"
        if key in ASSET_STORE:
            return UndeclaredAsset(
                f"{name} has no `{key}`: there is no asset among its inlets and outlets",
                hint="add the asset to inlets= or outlets= of the task",
            )
        if key in _DATES:
            return MissingKey(
                f"{name} has no `{key}`: run `{self.get('run_id')}` has no logical date",
                hint="runs that are started by assets have none; use run_id",
            )
        if key == "spark":
            return MissingKey(f"{name} has no `spark`", hint="decorate it with @task.pyspark")
        if key in NOT_HERE:
            return MissingKey(
                f"{name}: Holdfast does not support `{key}` in the context", hint=NOT_HERE[key]
            )
        known = ", ".join(sorted(self))
        return MissingKey(f"the context of {name} has no `{key}`", hint=f"it has {known}")


_current: list[Context] = []


@contextmanager
def entered(context: TaskContext) -> Iterator[None]:
    """Make `context` the current context of this process, in all its threads."""
    _current.append(cast(Context, context))
    try:
        yield
    finally:
        _current.pop()


def is_running() -> bool:
    """Return whether a task runs in this process."""
    return bool(_current)


def get_current_context() -> Context:
    """Return the context of the running task. Raise OutsideTask if no task runs."""
    if not _current:
        raise OutsideTask(
            "there is no current context: no task is running",
            hint="call get_current_context() inside a task, not while its DAG is defined",
        )
    return _current[-1]
