"""Options that select the scope of a command."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeAlias

import click

from holdfast.cli.parameter import MAP_INDEX
from holdfast.commands import AssetFilter, TaskFilter, Where
from holdfast.errors import InvalidInput
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.portable.identifier import check_text

Function: TypeAlias = Callable[..., None]

_TASK_OPTIONS = (
    click.option("--dag-id", metavar="ID", help="DAG of the task instance."),
    click.option("--run-id", metavar="ID", help="Run of the task instance."),
    click.option("--task-id", metavar="ID", help="Task of the task instance."),
    click.option(
        "--map-index",
        type=MAP_INDEX,
        metavar="N",
        help="Index of a mapped task instance; -1, the default, if it is not mapped.",
    ),
)
_ASSET_OPTIONS = (
    click.option("--asset", "name", metavar="NAME", help="An asset, by name."),
    click.option("--asset-uri", "uri", metavar="URI", help="An asset, by URI."),
)


def scope_options(function: Function) -> Function:
    """Add options to a command and pass it a `scope`: one task instance or one asset."""
    return _with_scope(function, optional=False)


def part_options(function: Function) -> Function:
    """Add options to a command and pass it a `scope`: a task instance, an asset or None for all."""
    return _with_scope(function, optional=True)


def _with_scope(function: Function, *, optional: bool) -> Function:
    @wraps(function)
    def with_scope(
        dag_id: str | None,
        run_id: str | None,
        task_id: str | None,
        map_index: int | None,
        name: str | None,
        uri: str | None,
        **others: Any,
    ) -> None:
        tasks = TaskFilter(dag_id, run_id, task_id, map_index)
        if optional and tasks == TaskFilter() and name is None and uri is None:
            function(scope=None, **others)
        else:
            function(scope=_one_scope(tasks, name, uri, others.get("declare", False)), **others)

    return _with(with_scope, *_TASK_OPTIONS, *_ASSET_OPTIONS)


def asset_options(function: Function) -> Function:
    """Add options to a command and pass it a `scope`: one asset."""

    @wraps(function)
    def with_scope(name: str | None, uri: str | None, **others: Any) -> None:
        function(scope=_one_asset(name, uri), **others)

    return _with(with_scope, *_ASSET_OPTIONS)


def filter_options(function: Function) -> Function:
    """Add options to a command and pass it a `where`: one scope, or all that match the options."""

    @wraps(function)
    def with_where(
        dag_id: str | None,
        run_id: str | None,
        task_id: str | None,
        map_index: int | None,
        name: str | None,
        uri: str | None,
        assets: bool,
        **others: Any,
    ) -> None:
        tasks = TaskFilter(dag_id, run_id, task_id, map_index)
        function(where=_where(tasks, name, uri, assets), **others)

    assets = click.option("--assets", is_flag=True, help="All assets.")
    return _with(with_where, *_TASK_OPTIONS, *_ASSET_OPTIONS, assets)


def _with(function: Function, *options: Callable[[Function], Function]) -> Function:
    for option in reversed(options):
        function = option(function)
    return function


def _where(tasks: TaskFilter, name: str | None, uri: str | None, assets: bool) -> Where:
    if assets:
        if tasks != TaskFilter() or name or uri:
            raise InvalidInput(
                "--assets selects all assets", hint="leave out the options that name one"
            )
        return AssetFilter()
    if name is not None or uri is not None or _missing(tasks) == []:
        return _one_scope(tasks, name, uri)
    for part in (tasks.dag_id, tasks.run_id, tasks.task_id):
        check_text("the id", part or "")
    return tasks


def _one_scope(
    tasks: TaskFilter, name: str | None, uri: str | None, both_names: bool = False
) -> StoreScope:
    if name is None and uri is None:
        if missing := _missing(tasks):
            given = "" if tasks == TaskFilter() else "the rest of "
            raise InvalidInput(
                "no task instance or asset is named",
                hint=f"give {given}--dag-id, --run-id and --task-id ({', '.join(missing)} "
                "missing), or --asset",
            )
        assert tasks.dag_id is not None
        assert tasks.run_id is not None
        assert tasks.task_id is not None
        map_index = -1 if tasks.map_index is None else tasks.map_index
        return TaskScope(tasks.dag_id, tasks.run_id, tasks.task_id, map_index)
    if tasks != TaskFilter():
        raise InvalidInput(
            "both a task and an asset are named", hint="state belongs to one of them; name that one"
        )
    return _one_asset(name, uri, both_names)


def _one_asset(name: str | None, uri: str | None, both_names: bool = False) -> AssetScope:
    if name is None and uri is None:
        raise InvalidInput("no asset is named", hint="give --asset or --asset-uri")
    if name is not None and uri is not None and not both_names:
        raise InvalidInput("both --asset and --asset-uri are given", hint="give one of them")
    return AssetScope(name=name, uri=uri)


def _missing(tasks: TaskFilter) -> list[str]:
    given = {"--dag-id": tasks.dag_id, "--run-id": tasks.run_id, "--task-id": tasks.task_id}
    return [option for option, value in given.items() if value is None]
