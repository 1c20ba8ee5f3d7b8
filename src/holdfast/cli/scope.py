"""Options that select the scope of a command."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, TypeAlias

import click

from holdfast.cli.parameter import ID, MAP_INDEX
from holdfast.commands import AssetFilter, TaskFilter, Where
from holdfast.errors import InvalidInput
from holdfast.model.scope import AssetScope, StoreScope, TaskScope

Function: TypeAlias = Callable[..., None]

_TASK_OPTIONS = (
    click.option("--dag-id", type=ID, metavar="ID", help="DAG of the task instance."),
    click.option("--run-id", type=ID, metavar="ID", help="Run of the task instance."),
    click.option("--task-id", type=ID, metavar="ID", help="Task of the task instance."),
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
_ALL_ASSETS_OPTION = click.option("--assets", is_flag=True, help="All assets.")


def scope_options(function: Function) -> Function:
    """Add options to a command and pass it a `scope`: one task instance or one asset."""
    return _passing("scope", _Selection.scope, function, *_TASK_OPTIONS, *_ASSET_OPTIONS)


def part_options(function: Function) -> Function:
    """Add options to a command and pass it a `scope`: a task instance, an asset or None for all."""
    return _passing("scope", _Selection.part, function, *_TASK_OPTIONS, *_ASSET_OPTIONS)


def asset_options(function: Function) -> Function:
    """Add options to a command and pass it a `scope`: one asset."""
    return _passing("scope", _Selection.asset, function, *_ASSET_OPTIONS)


def filter_options(function: Function) -> Function:
    """Add options to a command and pass it a `where`: one scope, or all that match the options."""
    options = (*_TASK_OPTIONS, *_ASSET_OPTIONS, _ALL_ASSETS_OPTION)
    return _passing("where", _Selection.where, function, *options)


def _passing(
    argument: str,
    select: Callable[[_Selection], Any],
    function: Function,
    *options: Callable[[Function], Function],
) -> Function:
    fields = TaskFilter.__struct_fields__ if _TASK_OPTIONS[0] in options else ()

    @wraps(function)
    def with_selection(**given: Any) -> None:
        task = {name: given.pop(name) for name in fields}
        names = given.pop("name"), given.pop("uri")
        every = given.pop("assets", False)
        both = argument == "scope" and given.get("declare", False)
        selection = _Selection(TaskFilter(**task), *names, every, both)
        function(**{argument: select(selection)}, **given)

    chosen: Function = with_selection
    for option in reversed(options):
        chosen = option(chosen)
    return chosen


class _Selection(NamedTuple):
    """The options that select scopes, as given."""

    tasks: TaskFilter
    name: str | None
    uri: str | None
    every_asset: bool
    both_names: bool
    """Whether an asset may be given by its name and its URI."""

    def part(self) -> StoreScope | None:
        return None if self._is_empty else self.scope()

    def where(self) -> Where:
        if self.every_asset:
            if not self._is_empty:
                raise InvalidInput(
                    "--assets selects all assets", hint="leave out the options that name one"
                )
            return AssetFilter()
        return self.tasks if self._missing and not self._names_an_asset else self.scope()

    def scope(self) -> StoreScope:
        if self._names_an_asset:
            if self.tasks != TaskFilter():
                raise InvalidInput(
                    "both a task and an asset are named",
                    hint="state belongs to one of them; name that one",
                )
            return self.asset()
        if self._missing:
            given = "" if self.tasks == TaskFilter() else "the rest of "
            raise InvalidInput(
                "no task instance or asset is named",
                hint=f"give {given}--dag-id, --run-id and --task-id ({', '.join(self._missing)} "
                "missing), or --asset",
            )
        dag_id, run_id, task_id = map(str, self._ids.values())
        map_index = -1 if self.tasks.map_index is None else self.tasks.map_index
        return TaskScope(dag_id, run_id, task_id, map_index)

    def asset(self) -> AssetScope:
        if not self._names_an_asset:
            raise InvalidInput("no asset is named", hint="give --asset or --asset-uri")
        if None not in (self.name, self.uri) and not self.both_names:
            raise InvalidInput("both --asset and --asset-uri are given", hint="give one of them")
        return AssetScope(name=self.name, uri=self.uri)

    @property
    def _names_an_asset(self) -> bool:
        return self.name is not None or self.uri is not None

    @property
    def _is_empty(self) -> bool:
        return self.tasks == TaskFilter() and not self._names_an_asset

    @property
    def _ids(self) -> dict[str, str | None]:
        tasks = self.tasks
        return {"--dag-id": tasks.dag_id, "--run-id": tasks.run_id, "--task-id": tasks.task_id}

    @property
    def _missing(self) -> list[str]:
        return [option for option, id in self._ids.items() if id is None]
