"""Registry of runs with their task instances, and of assets with the DAGs that declare them."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast import commands as c
from holdfast.model.entry import AssetInfo
from holdfast.model.run import RunState
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.stores import refusals
from holdfast.stores.sql import rows, run_rows
from holdfast.stores.sql.operations.runs import lock_dag_to_delete
from holdfast.stores.sql.operations.scopes import find, known, unknown
from holdfast.stores.sql.operations.steps import BEGIN, Context, Steps, each, window
from holdfast.stores.sql.statements import assets as a
from holdfast.stores.sql.statements import deletion as d
from holdfast.stores.sql.statements import entries as s
from holdfast.stores.sql.statements import history as h
from holdfast.stores.sql.statements import runs as r
from holdfast.stores.sql.statements import staging as g
from holdfast.stores.sql.statements.scope_tables import ASSETS, TASKS


def register_task(context: Context, command: c.RegisterTask) -> Steps[None]:
    yield BEGIN
    scope, dialect = command.scope, type(context.dialect)
    run = {"dag_id": scope.dag_id, "run_id": scope.run_id}
    found: list[rows.Row] = []
    while not found:  # somebody may delete the run between the two statements
        yield r.add_external_run(dialect), run
        found = yield r.find_run(), run
    yield (
        r.add_task_instance(dialect),
        {
            "owner": scope.ti_text,
            "run": found[0][0],
            "task_id": scope.task_id,
            "map_index": scope.map_index,
        },
    )


def list_tasks(context: Context, command: c.ListTasks) -> Steps[tuple[TaskScope, ...]]:
    run = {"dag_id": command.dag_id, "run_id": command.run_id}
    found = yield r.tasks_of_run(), run
    return tuple(TaskScope(command.dag_id, command.run_id, *row) for row in found)


def delete_run(context: Context, command: c.DeleteRun) -> Steps[None]:
    yield BEGIN
    tasks = yield from lock_tasks(command)
    if tasks is not None:
        yield from remove_run(context, command.dag_id, command.run_id, tasks)


def remove_run(
    context: Context, dag_id: str, run_id: str, tasks: Sequence[rows.Row]
) -> Steps[None]:
    """Delete a run, which is locked together with its task instances."""
    # Before the run: references in a row are queued for deletion with the names of its owner.
    owners = [{"owner": ti_id} for ti_id, _, _ in tasks]
    yield from each(s.delete_all(TASKS), owners)
    yield from each(g.drop_staged(), owners)
    run = {"dag_id": dag_id, "run_id": run_id}
    yield r.delete_run(), run
    if tasks:
        _, revisions, attempts = zip(*tasks, strict=True)
        reached = {"revision": max(revisions), "attempt": max(attempts)}
        yield d.remember_deleted_run(type(context.dialect)), run | reached


def lock_tasks(command: c.DeleteRun) -> Steps[list[rows.Row] | None]:
    """Lock a run and its task instances; return these, or None if there is no such run. Raise
    Conflict if the run must not be deleted."""
    if command.with_dag:
        yield from lock_dag_to_delete(command.dag_id)
    run = {"dag_id": command.dag_id, "run_id": command.run_id}
    found = yield r.lock_run_to_delete(), run
    if not found:
        return None
    [(id, state, owner, leased)] = found
    if command.unless_leased and leased:
        process = str(run_rows.process(owner))
        raise refusals.run_leased(command.dag_id, command.run_id, process)
    if command.with_dag and not RunState(state).ended:
        raise refusals.dag_has_runs(command.dag_id, 1)
    return (yield r.lock_tasks_of_run(), {"run": id})  # type: ignore[no-any-return]


def declare(context: Context, name: str, uri: str) -> Steps[int]:
    """Return the asset's id; create it if it does not exist. Raise InvalidInput if another asset
    has its name or URI."""
    asset = {
        "name": name,
        "uri": uri,
        "name_digest": rows.digest(name),
        "uri_digest": rows.digest(uri),
    }
    found: list[rows.Row] = []
    while not found:  # somebody may delete the asset between the two statements
        yield a.add_asset(type(context.dialect)), asset
        found = yield a.find_asset(), asset
    for id, its_name, its_uri, _, revision in found:
        if (its_name, its_uri) == (name, uri):
            if revision == 0:
                yield d.resume_revision(), asset | {"owner": id}
            return id  # type: ignore[no-any-return]
    raise refusals.taken(name, uri, found[0][1], found[0][2])


def declare_asset(context: Context, command: c.DeclareAsset) -> Steps[AssetInfo]:
    yield BEGIN
    found = []
    if command.name is None or command.uri is None:
        _, by, params = find(AssetScope(name=command.name, uri=command.uri))
        found = yield s.owner(ASSETS, by), params
    id = found[0][0] if found else (yield from declare(context, *command.declared))
    if not (yield a.declare_by_hand(), {"owner": id}):
        return (yield from declare_asset(context, command))  # somebody has just deleted it
    return rows.assets((yield a.asset("id"), {"owner": id}))[0]


def declare_dag_assets(context: Context, command: c.DeclareDagAssets) -> Steps[None]:
    yield BEGIN
    yield from declare_for_dag(context, command)
    yield from settle_assets()


def declare_for_dag(context: Context, command: c.DeclareDagAssets) -> Steps[None]:
    """Make these assets the only ones that the DAG declares."""
    yield a.drop_declarations(), {"dag_id": command.dag_id}
    for name, uri in sorted(command.assets):
        id = yield from declare(context, name, uri)
        params = {"dag_id": command.dag_id, "owner": id}
        yield a.add_declaration(type(context.dialect)), params


def settle_assets() -> Steps[None]:
    """Activate declared assets and deactivate all others, after a change of declarations."""
    yield a.deactivate(), {}
    yield a.reactivate(), {}


def list_assets(context: Context, command: c.ListAssets) -> Steps[tuple[AssetInfo, ...]]:
    return rows.assets((yield a.page_of_assets(), window(command.limit, command.offset)))


def asset_changes(context: Context, command: c.AssetChanges) -> Steps[tuple[int, int, int]]:
    [(events, assets, newest)] = yield a.asset_changes(), {}
    return int(events), assets, newest


def get_asset(context: Context, command: c.GetAsset) -> Steps[AssetInfo]:
    _, by, params = find(command.scope)
    for asset in rows.assets((yield a.asset(by), params)):
        return asset
    raise (yield from unknown(command.scope))


def delete_asset(context: Context, command: c.DeleteAsset) -> Steps[None]:
    yield BEGIN
    id = yield from known(command.scope)
    for _, revision, _ in (yield from lock_asset(id)):
        [(_, name, uri)] = yield s.identity("id"), {"owner": id}
        digests = [{"digest": rows.digest(text), "revision": revision} for text in (name, uri)]
        yield d.remember_deleted_asset(type(context.dialect)), digests
    # Its parts first: references in a row are queued for deletion with the names of its owner.
    for drop in (s.delete_all(ASSETS), h.delete_history(), g.drop_staged_for_asset()):
        yield drop, {"owner": id}
    yield a.delete_asset(), {"owner": id}


def lock_asset(id: int) -> Steps[list[rows.Row]]:
    return (yield s.lock_owner(ASSETS, "id"), {"owner": id})  # type: ignore[no-any-return]
