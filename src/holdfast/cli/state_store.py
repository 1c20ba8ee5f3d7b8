"""`holdfast state-store`: the entries of task instances and assets."""

from __future__ import annotations

from copy import copy
from datetime import timedelta

import click
import msgspec

from holdfast import commands as c
from holdfast.cli import document
from holdfast.cli.cleanup import cleanup_asset_store, cleanup_task_store
from holdfast.cli.leftovers import leftovers
from holdfast.cli.opening import open_connection, open_store, person
from holdfast.cli.output import counted, json_option, print_document, print_table, say, time_text
from holdfast.cli.parameter import (
    COUNT,
    VERSION,
    key_argument,
    prefix_option,
    retention_option,
    value_argument,
)
from holdfast.cli.purge import purge
from holdfast.cli.question import ask, yes_option
from holdfast.cli.reconcile import reconcile
from holdfast.cli.rewind import rewind
from holdfast.cli.scope import asset_options, filter_options, scope_options
from holdfast.cli.transfer import copy_command, export_command, import_command
from holdfast.errors import InvalidInput, NotFound, NotSupported
from holdfast.model.entry import Found
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.value import decode, fits, too_large
from holdfast.settings import load


@click.group("state-store")
def command() -> None:
    """Read and write the state of task instances and assets."""


@command.command("list")
@filter_options
@prefix_option
@click.option(
    "--limit",
    default=100,
    show_default=True,
    type=COUNT,
    metavar="N",
    help="Maximum number to show; 0: all.",
)
@click.option("--offset", default=0, type=COUNT, metavar="N", help="Skip the first N entries.")
@json_option
def list_entries(where: c.Where, prefix: str, limit: int, offset: int, as_json: bool) -> None:
    """List entries, ordered by scope and key.

    The entries are those of one task instance or asset, or of all task instances that match the
    options.
    """
    with open_store(load()) as store:
        page = store.execute(c.List(where, prefix=prefix, limit=limit or None, offset=offset))
    if as_json:
        entries = [document.of_entry(found.scope, found.entry) for found in page.found]
        print_document({"entries": entries, "total_entries": page.total})
        return
    if page.found:
        print_entries(where, page.found)
    last = offset + len(page.found)
    if last < page.total:
        say(f"{len(page.found)} of {page.total} entries; --offset {last} shows the next ones.")
    elif where == c.TaskFilter() and not page.total:
        say("There are no task entries; --assets lists those of assets.")
    elif not page.found:
        say(
            "There are no entries."
            if not page.total
            else f"--offset is past the last of {page.total} entries."
        )


@command.command("get")
@scope_options
@key_argument
@json_option
def get_entry(scope: StoreScope, key: str, as_json: bool) -> None:
    """Print the value of KEY.

    The value is printed as JSON; with --json the whole entry is. If the value is in the workers'
    storage, its reference is printed.
    """
    with open_store(load()) as store:
        if as_json:
            entry = store.execute(c.GetEntry(scope, key))
            if entry is not None:
                document.line(entry.value, f"`{key}` of {scope}")
                print_document(document.of_entry(scope, entry))
                return
        else:
            text = store.execute(c.Get(scope, key))
            if text is not None:
                click.echo(document.line(text, f"`{key}` of {scope}"))
                return
    raise NotFound(
        f"{scope} has no entry `{key}`", hint="`holdfast state-store list` shows the keys"
    )


# So that a value such as -5 is not taken for an option.
@command.command("set", context_settings={"ignore_unknown_options": True})
@scope_options
@key_argument
@value_argument
@retention_option
@click.option(
    "--if-version",
    type=VERSION,
    metavar="N",
    help="Write only if the entry has this version; 0: only if there is none.",
)
@click.option(
    "--declare",
    is_flag=True,
    help="Declare the asset first. Name and URI default to each other.",
)
@json_option
def set_entry(
    scope: StoreScope,
    key: str,
    value: str,
    retention: timedelta | None,
    if_version: int | None,
    declare: bool,
    as_json: bool,
) -> None:
    """Write VALUE, which is JSON, to KEY.

    `-` reads the value from stdin. An unknown task instance is registered as one that runs outside
    Holdfast.
    """
    if isinstance(scope, TaskScope) and declare:
        raise InvalidInput("--declare is for assets", hint="leave it out for tasks")
    if isinstance(scope, AssetScope) and retention is not None:
        raise InvalidInput(
            "--retention is for tasks", hint="leave it out: asset state does not expire"
        )
    settings = load()
    limit = settings.state_store.max_value_storage_bytes
    if not fits(value, limit):
        raise too_large(value, limit, f"`{key}` of {scope}")
    with open_connection(settings) as connection:
        if as_json and not connection.store.supports(c.GetEntry):
            raise NotSupported(
                "the configured backend does not return the entry that it wrote",
                hint="leave out --json",
            )
        if isinstance(scope, TaskScope):
            task_store = connection.task_store(*msgspec.structs.astuple(scope))
            task_store.set(key, decode(value), retention=retention, if_version=if_version)
        else:
            asset_store = connection.asset_store(name=scope.name, uri=scope.uri, declare=declare)
            asset_store.set(key, decode(value), if_version=if_version)
        say(f"Set `{key}` of {scope}.")
        if as_json:
            entry = connection.store.execute(c.GetEntry(scope, key))
            print_document(entry and document.of_entry(scope, entry))


@command.command("delete")
@scope_options
@key_argument
@yes_option
@json_option
def delete_entry(scope: StoreScope, key: str, yes: bool, as_json: bool) -> None:
    """Delete KEY. The values of an asset's key stay in its history."""
    with open_store(load()) as store:
        found = store.execute(c.Get(scope, key)) is not None
        if found:
            ask(f"Delete `{key}` of {scope}?", yes)
            store.execute(c.Delete(scope, key, person()))
            say(f"Deleted `{key}` of {scope}.")
        else:
            say(f"{scope} has no entry `{key}`; nothing to delete.")
    if as_json:
        print_document({"deleted": int(found)})


@command.command("clear")
@scope_options
@click.option("--all-map-indices", is_flag=True, help="Every map index of the task in this run.")
@yes_option
@json_option
def clear_entries(scope: StoreScope, all_map_indices: bool, yes: bool, as_json: bool) -> None:
    """Delete every key. The values of an asset's keys stay in their history."""
    where: c.Where = scope
    whose = str(scope)
    if all_map_indices:
        if not isinstance(scope, TaskScope):
            raise InvalidInput("--all-map-indices is for tasks", hint="leave it out")
        where = c.TaskFilter(scope.dag_id, scope.run_id, scope.task_id)
        whose = f"{scope} and all its map indices"
    with open_store(load()) as store:
        page = store.execute(c.List(where, limit=1)) if store.supports(c.List) else None
        entries = counted(page.total, "entry", "entries") if page else "all entries"
        if page is None or page.total:
            ask(f"Clear {entries} of {whose}?", yes)
        store.execute(c.Clear(scope, person(), all_map_indices))
    say(f"Cleared {entries} of {whose}.")
    if as_json:
        print_document({"deleted": page and page.total})


@command.command("history")
@asset_options
@key_argument
@json_option
def history(scope: AssetScope, key: str, as_json: bool) -> None:
    """Show the last versions of an asset's KEY.

    The newest version is first; deletions are included.
    """
    with open_store(load()) as store:
        steps = store.execute(c.History(scope, key))
    if not steps:
        raise NotFound(
            f"`{key}` of {scope} has no history",
            hint="`holdfast state-store list` shows the keys",
        )
    if as_json:
        print_document([document.of_version(step) for step in steps])
        return
    print_table(
        ("version", "value", "updated", "writer"),
        [
            (
                str(step.version),
                "(deleted)" if step.value is None else document.cell(step.value),
                time_text(step.updated_at),
                str(step.writer),
            )
            for step in steps
        ],
    )


for other in (cleanup_asset_store, cleanup_task_store, leftovers, purge, reconcile, rewind):
    command.add_command(other)
for transfer in (export_command, import_command, copy_command):
    command.add_command(transfer)
for spelling in ("cleanup-task-states", "clean"):
    same = copy(cleanup_task_store)
    same.hidden = True
    command.add_command(same, spelling)


def print_entries(where: c.Where, found: tuple[Found, ...]) -> None:
    of_tasks = isinstance(where, TaskScope | c.TaskFilter)
    owner: tuple[str, ...] = ("dag", "run", "task", "map index") if of_tasks else ("asset",)
    if isinstance(where, TaskScope | AssetScope):
        owner = ()
    columns = (*owner, "key", "value", "version", "updated", "expires" if of_tasks else "writer")
    print_table(
        columns,
        [
            (
                *(scope_cells(item.scope) if owner else ()),
                item.entry.key,
                document.cell(item.entry.value),
                str(item.entry.version),
                time_text(item.entry.updated_at),
                time_text(item.entry.expires_at) if of_tasks else str(item.entry.writer),
            )
            for item in found
        ],
    )


def scope_cells(scope: StoreScope) -> tuple[str, ...]:
    if isinstance(scope, TaskScope):
        return scope.dag_id, scope.run_id, scope.task_id, str(scope.map_index)
    return (scope.name or "",)
