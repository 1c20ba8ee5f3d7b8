"""Events of assets: recorded in order, and listed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast import commands as c
from holdfast.model.entry import AssetInfo
from holdfast.model.run import AssetEvent, EmittedEvent
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.stores.sql import rows, run_rows
from holdfast.stores.sql.operations.fencing import lock_scope
from holdfast.stores.sql.operations.measuring import up_to_size
from holdfast.stores.sql.operations.registry import declare
from holdfast.stores.sql.operations.runs import get_run
from holdfast.stores.sql.operations.scopes import find, known, unknown
from holdfast.stores.sql.operations.steps import BEGIN, Context, Query, Steps, window
from holdfast.stores.sql.statements import assets as a
from holdfast.stores.sql.statements import entries as s
from holdfast.stores.sql.statements import events as e


def by_asset(
    context: Context, events: Sequence[EmittedEvent], source: TaskScope
) -> Steps[dict[int, list[EmittedEvent]]]:
    """Return the events of each asset. Declare unknown and inactive assets for the source's DAG,
    except for an event with a key, which raises UnknownAsset."""
    found: dict[int, list[EmittedEvent]] = {}
    for event in events:
        if event.key is None:
            id = yield from _active(context, event, source.dag_id)
        else:
            id = yield from known(AssetScope(name=event.name))
        found.setdefault(id, []).append(event)
    return found


def _active(context: Context, event: EmittedEvent, dag_id: str) -> Steps[int]:
    digests = {"name_digest": rows.digest(event.name), "uri_digest": rows.digest(event.uri)}
    for id, name, uri, orphaned_at, _ in (yield a.find_asset(), digests):
        if (name, uri, orphaned_at) == (event.name, event.uri, None):
            return id  # type: ignore[no-any-return]
    asset_id = yield from declare(context, event.name, event.uri)
    declared = {"dag_id": dag_id, "owner": asset_id}
    yield a.add_declaration(type(context.dialect)), declared
    yield e.wake_asset(), declared
    return asset_id


def record(
    context: Context,
    asset_id: int,
    event: EmittedEvent,
    source: TaskScope | None,
    user: str | None = None,
) -> Steps[None]:
    """Give the event its number, which is final: the asset's row stays locked until commit.

    With a key that an event of the asset has, record nothing; with a new one, raise AssetInactive
    if no DAG declares the asset any more.
    """
    if event.key is not None:
        asset = AssetScope(asset_id, event.name, event.uri)
        if (yield from _reported(asset_id, asset, event.key)) is not None:
            return
    yield from _add(context, asset_id, event, source, user)


def _reported(id: int, asset: AssetScope, key: str) -> Steps[rows.Row | None]:
    """Return the asset's event with the key. Where there is none, lock the asset until commit."""
    of_key: Query = e.event_of_key(), {"owner": id, "key": key}
    found = yield of_key
    if not found:
        yield from lock_scope(asset)
        found = yield of_key  # a concurrent one may have been quicker
    return found[0] if found else None


def _add(
    context: Context, id: int, event: EmittedEvent, source: TaskScope | None, user: str | None
) -> Steps[None]:
    asset: dict[str, Any] = {"owner": id}
    yield e.count_event(), asset
    reported = {"source": run_rows.source_column(source), "reported_by": user, "key": event.key}
    yield e.add_event(), asset | reported | {"extra": event.extra}
    for alias in event.aliases:
        names = {"alias": alias, "alias_digest": rows.digest(alias)}
        yield e.add_alias(type(context.dialect)), asset | names


def emit_asset_event(context: Context, command: c.EmitAssetEvent) -> Steps[AssetEvent]:
    yield BEGIN
    _, by, params = find(command.scope)
    found = yield s.identity(by), params
    if not found:
        raise (yield from unknown(command.scope))
    id, name, uri = found[0]
    asset = AssetScope(id, name, uri)
    if command.key is None:
        yield from lock_scope(asset)
    elif (reported := (yield from _reported(id, asset, command.key))) is not None:
        return run_rows.asset_event(reported)
    event = EmittedEvent(name, uri, command.extra, key=command.key)
    yield from _add(context, id, event, None, command.writer.user)
    [added] = yield e.events("id"), {"owner": id, **window(1, 0)}
    return run_rows.asset_event(added)


def list_asset_events(
    context: Context, command: c.ListAssetEvents
) -> Steps[tuple[AssetEvent, ...]]:
    select, params = events_query(command)
    found, _ = yield from up_to_size(
        (select, params), s.measured(select, "extra"), command.max_size
    )
    if not found and command.scope is not None:
        yield from known(command.scope)
    return tuple(run_rows.asset_event(row) for row in found)


def events_query(command: c.ListAssetEvents) -> Query:
    page = window(command.limit, command.offset)
    if command.scope is None:
        return e.events(None), page
    _, by, params = find(command.scope)
    return e.events(by), params | page


def run_events(context: Context, command: c.RunEvents) -> Steps[tuple[AssetEvent, ...]]:
    select = e.events_of_run()
    page = window(command.limit, command.offset)
    params = {"dag_id": command.dag_id, "run_id": command.run_id, **page}
    found, _ = yield from up_to_size(
        (select, params), s.measured(select, "extra"), command.max_size
    )
    if not found:
        yield from get_run(context, c.GetRun(command.dag_id, command.run_id))
    return tuple(run_rows.asset_event(row) for row in found)


def alias_assets(context: Context, command: c.AliasAssets) -> Steps[tuple[AssetInfo, ...]]:
    return rows.assets((yield e.assets_behind(), {"alias_digest": rows.digest(command.alias)}))
