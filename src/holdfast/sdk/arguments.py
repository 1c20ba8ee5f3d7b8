"""Arguments of tasks, and the settings that they result in."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from difflib import get_close_matches
from typing import Any, TypeAlias, TypedDict

from holdfast.errors import InvalidDag
from holdfast.model.dag import CallbackKind, Inlet, Outlet
from holdfast.model.plain_types import base_timedelta
from holdfast.model.pool import DEFAULT_POOL
from holdfast.model.run import TriggerRule
from holdfast.portable.identifier import check_id
from holdfast.sdk.asset import Asset, AssetAlias, AssetRef
from holdfast.sdk.param import Param, as_params

Callback: TypeAlias = Callable[[Any], Any]
Callbacks: TypeAlias = Callback | Iterable[Callback] | None


class TaskArguments(TypedDict, total=False):
    """The arguments of a task.

    Those after `params` have no effect here: the first group is accepted so that pipelines written
    for Airflow need not drop them, the second only while it asks for nothing.
    """

    retries: int | None
    retry_delay: timedelta | float
    retry_exponential_backoff: bool | float
    max_retry_delay: timedelta | float | None
    execution_timeout: timedelta | None
    trigger_rule: str
    max_active_tis_per_dagrun: int | None
    pool: str | None
    pool_slots: int
    inlets: Any
    outlets: Any
    on_execute_callback: Callbacks
    on_success_callback: Callbacks
    on_failure_callback: Callbacks
    on_retry_callback: Callbacks
    on_skipped_callback: Callbacks
    do_xcom_push: bool
    doc_md: str | None
    params: Mapping[str, Any] | None

    owner: str
    email: Any
    email_on_retry: bool
    email_on_failure: bool
    start_date: datetime | None
    end_date: datetime | None
    queue: str
    priority_weight: int
    weight_rule: Any
    executor: str | None
    executor_config: Any
    resources: Any
    doc: str | None
    doc_json: str | None
    doc_yaml: str | None
    doc_rst: str | None
    task_display_name: str | None
    map_index_template: str | None
    logger_name: str | None
    multiple_outputs: bool
    allow_nested_operators: bool
    ignore_first_depends_on_past: bool
    wait_for_past_depends_before_skipping: bool
    render_template_as_native_obj: bool | None

    depends_on_past: bool
    wait_for_downstream: bool
    max_active_tis_per_dag: int | None
    retry_policy: Any
    run_as_user: str | None
    sla: timedelta | None
    task_group: Any
    pre_execute: Any
    post_execute: Any


_ONLY_WHEN_EMPTY: dict[str, str] = {
    "depends_on_past": "set max_active_runs=1 on the DAG, and store a watermark in the asset store",
    "wait_for_downstream": "set max_active_runs=1 on the DAG",
    "max_active_tis_per_dag": "use max_active_tis_per_dagrun, or max_active_runs=1 on the DAG",
    "retry_policy": "use retries, and raise AirflowFailException where a retry would not help",
    "run_as_user": "start the runner as that user",
    "sla": "use execution_timeout",
    "task_group": "connect the tasks themselves with >>",
    "pre_execute": "override pre_execute() in a subclass of BaseOperator",
    "post_execute": "override post_execute() in a subclass of BaseOperator",
}

KNOWN = frozenset(TaskArguments.__annotations__)
KINDS: tuple[CallbackKind, ...] = ("execute", "success", "failure", "retry", "skipped")


@dataclass(frozen=True, kw_only=True)
class TaskSettings:
    """The settings of a task that result from its arguments."""

    retries: int
    retry_delay: timedelta
    retry_backoff: float
    max_retry_delay: timedelta | None
    execution_timeout: timedelta | None
    trigger_rule: TriggerRule
    max_active: int | None
    pool: str
    pool_slots: int
    inlets: list[Asset | AssetRef | AssetAlias]
    outlets: list[Asset | AssetRef | AssetAlias]
    callbacks: dict[CallbackKind, tuple[Callback, ...]]
    keeps_result: bool
    doc_md: str
    params: dict[str, Param]

    @property
    def inlet_specs(self) -> tuple[Inlet, ...]:
        return tuple(one.spec for one in self.inlets)

    @property
    def outlet_specs(self) -> tuple[Outlet, ...]:
        return tuple(one.spec for one in self.outlets)


def settle(where: str, given: Mapping[str, Any]) -> TaskSettings:
    """Return the settings for arguments. Raise InvalidDag, which names the task and argument."""
    refuse(where, given, KNOWN, _ONLY_WHEN_EMPTY)
    return TaskSettings(
        retries=count(where, "retries", given.get("retries") or 0, least=0),
        retry_delay=duration(where, "retry_delay", given.get("retry_delay", 300)),
        retry_backoff=_backoff(where, given.get("retry_exponential_backoff", False)),
        max_retry_delay=_optional_duration(where, "max_retry_delay", given),
        execution_timeout=_optional_duration(where, "execution_timeout", given),
        trigger_rule=_trigger_rule(where, given.get("trigger_rule", TriggerRule.ALL_SUCCESS)),
        max_active=_max_active(where, given.get("max_active_tis_per_dagrun")),
        pool=_pool(where, given.get("pool") or DEFAULT_POOL),
        pool_slots=count(where, "pool_slots", given.get("pool_slots", 1), least=1),
        inlets=_assets(where, "inlets", given.get("inlets")),
        outlets=_assets(where, "outlets", given.get("outlets")),
        callbacks=callbacks(where, given),
        keeps_result=given.get("do_xcom_push", True),
        doc_md=given.get("doc_md") or given.get("doc") or "",
        params=as_params(where, given.get("params")),
    )


def refuse(
    where: str, given: Mapping[str, Any], known: Iterable[str], only_when_empty: Mapping[str, str]
) -> None:
    """Raise InvalidDag for an argument that is unknown, or whose value cannot be supported."""
    for name, value in given.items():
        if name not in known:
            near = [f"`{one}`" for one in get_close_matches(name, list(known), n=3)]
            meant = f"did you mean {' or '.join(near)}?" if near else "leave it out"
            raise InvalidDag(f"{where} has no argument `{name}`", hint=meant)
        if name in only_when_empty and value:
            raise InvalidDag(
                f"{where}: Holdfast does not support `{name}={value!r}`", hint=only_when_empty[name]
            )


def count(where: str, name: str, value: Any, *, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidDag(
            f"{where}: {name} is {value!r}", hint=f"give an integer of at least {least}"
        )
    return value


def duration(where: str, name: str, value: Any) -> timedelta:
    """Return a timedelta, or number of seconds, as a timedelta. Raise InvalidDag for others."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        value = timedelta(seconds=value)
    if not isinstance(value, timedelta) or value < timedelta(0):
        raise InvalidDag(
            f"{where}: {name} is {value!r}", hint="give a timedelta, or a number of seconds"
        )
    return base_timedelta(value)


def _optional_duration(where: str, name: str, given: Mapping[str, Any]) -> timedelta | None:
    value = given.get(name)
    return None if value is None else duration(where, name, value)


def _backoff(where: str, value: Any) -> float:
    if isinstance(value, bool):
        return 2.0 if value else 0.0
    if not isinstance(value, int | float) or value < 0:
        raise InvalidDag(
            f"{where}: retry_exponential_backoff is {value!r}",
            hint="give True, or the factor between two delays",
        )
    return float(value)


def _max_active(where: str, value: Any) -> int | None:
    return None if value is None else count(where, "max_active_tis_per_dagrun", value, least=1)


def _pool(where: str, value: Any) -> str:
    try:
        return check_id("pool", value)
    except (ValueError, TypeError) as error:
        raise InvalidDag(f"{where}: {error}") from None


def _trigger_rule(where: str, value: Any) -> TriggerRule:
    try:
        return TriggerRule(value)
    except ValueError:
        raise InvalidDag(
            f"{where}: {value!r} is not a trigger rule", hint=f"use one of {', '.join(TriggerRule)}"
        ) from None


def _assets(where: str, name: str, value: Any) -> list[Any]:
    if value is None:
        return []
    found = list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
    for one in found:
        if not isinstance(one, Asset | AssetRef | AssetAlias):
            raise InvalidDag(
                f"{where}: {one!r} is among its {name}", hint="use Asset, Asset.ref or AssetAlias"
            )
    return list(dict.fromkeys(found))


def callbacks(where: str, given: Mapping[str, Any]) -> dict[CallbackKind, tuple[Callback, ...]]:
    """Return the callbacks by kind. Raise InvalidDag if one is not callable."""
    found: dict[CallbackKind, tuple[Callback, ...]] = {}
    for kind in KINDS:
        value = given.get(f"on_{kind}_callback")
        several = tuple(value) if isinstance(value, list | tuple) else (value,) if value else ()
        for one in several:
            if not callable(one):
                raise InvalidDag(
                    f"{where}: on_{kind}_callback is {one!r}", hint="give a function of the context"
                )
        if several:
            found[kind] = several
    return found
