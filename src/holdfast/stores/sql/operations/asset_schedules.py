"""DAGs scheduled on asset events: their cursors, and the runs that events start.

An event has its number before it is committed, under the lock of its asset. A reader that sees n
events of an asset therefore finds all n of them, and a cursor skips none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

import msgspec

from holdfast import commands as c
from holdfast.model.dag import (
    AliasSpec,
    AllOf,
    AnyOf,
    AssetRefSpec,
    AssetSpec,
    Condition,
    OnAssets,
    Schedule,
)
from holdfast.model.run import Run, RunKind
from holdfast.model.scope import AssetScope
from holdfast.stores import refusals
from holdfast.stores.sql import rows
from holdfast.stores.sql.operations.runs import add_run, get_run
from holdfast.stores.sql.operations.scopes import find
from holdfast.stores.sql.operations.steps import BEGIN, Context, Steps
from holdfast.stores.sql.statements import dags as d
from holdfast.stores.sql.statements import events as e

Leaf: TypeAlias = AssetSpec | AssetRefSpec | AliasSpec


class Cursor(NamedTuple):
    """Position of a DAG in the events of an asset."""

    asset_id: int
    consumed: int
    counted: int

    @property
    def has_news(self) -> bool:
        return self.counted > self.consumed


class _Scheduled(msgspec.Struct):
    """The one part of a `DagSpec` that matters here."""

    schedule: Schedule | None = None


_decode = msgspec.json.Decoder(_Scheduled).decode


def condition_in(spec: str) -> Condition | None:
    """Return the condition of a DAG that is scheduled on assets; None for any other."""
    schedule = _decode(spec).schedule
    return schedule.condition if isinstance(schedule, OnAssets) else None


def leaves(condition: Condition) -> Iterator[Leaf]:
    """Yield the assets, references and aliases that a condition names."""
    if isinstance(condition, AllOf | AnyOf):
        for part in condition.of:
            yield from leaves(part)
    else:
        yield condition


def cursors(dag_id: str, condition: Condition) -> Steps[dict[Leaf, list[Cursor]]]:
    """Return, for each leaf, the cursors of the assets behind it.

    An asset that was not behind it when the DAG was saved has no row yet. All its events count
    then; behind an alias, those from the first one on that named the alias. An asset behind several
    leaves has one cursor, at the first event that counts for any of them.
    """
    consumed = dict((yield d.cursors(), {"dag_id": dag_id}))
    behind: dict[Leaf, Sequence[rows.Row]] = {}
    first: dict[int, int] = {}
    for leaf in leaves(condition):
        if isinstance(leaf, AliasSpec):
            query = d.scheduled_assets_behind(), {"alias_digest": rows.digest(leaf.name)}
        else:
            _, by, params = find(AssetScope(name=leaf.name, uri=leaf.uri))
            query = d.scheduled_asset(by), params
        behind[leaf] = yield query
        for asset_id, _, since in behind[leaf]:
            first[asset_id] = min(since, first.get(asset_id, since))
    return {
        leaf: [
            Cursor(asset_id, consumed.get(asset_id, first[asset_id]), counted)
            for asset_id, counted, _ in assets
        ]
        for leaf, assets in behind.items()
    }


def holds(condition: Condition, found: dict[Leaf, list[Cursor]]) -> bool:
    match condition:
        case AllOf(of):
            return all(holds(part, found) for part in of)
        case AnyOf(of):
            return any(holds(part, found) for part in of)
    return any(cursor.has_news for cursor in found[condition])


def follow(
    context: Context, dag_id: str, before: Condition | None, after: Condition | None
) -> Steps[None]:
    """Replace the DAG's cursors by those of its new condition. Existing ones are kept; new ones
    start at the newest event."""
    kept: dict[int, int] = {}
    if before is not None:
        for had in (yield from cursors(dag_id, before)).values():
            kept |= {cursor.asset_id: cursor.consumed for cursor in had}
    yield d.drop_cursors(), {"dag_id": dag_id}
    if after is not None:
        for wanted in (yield from cursors(dag_id, after)).values():
            for cursor in wanted:
                consumed = kept.get(cursor.asset_id, cursor.counted)
                yield from _move(context, dag_id, cursor, consumed)


def _move(context: Context, dag_id: str, cursor: Cursor, consumed: int) -> Steps[None]:
    params = {"dag_id": dag_id, "asset_id": cursor.asset_id, "consumed": consumed}
    yield d.put_cursor(type(context.dialect)), params


def create_asset_run(context: Context, command: c.CreateAssetRun) -> Steps[Run | None]:
    # Most of the time a scheduler finds nothing new, and needs no lock.
    if not (yield from _news(command.dag_id)):
        return None
    yield BEGIN
    yield d.lock_dag(), {"dag_id": command.dag_id}
    news = yield from _news(command.dag_id)
    if not news:
        return None
    run = c.CreateRun(dag_id=command.dag_id, run_id=command.run_id, kind=RunKind.ASSET)
    id = yield from add_run(run)
    for cursor in news:
        events = {"owner": cursor.asset_id, "consumed": cursor.consumed, "counted": cursor.counted}
        yield e.take_events(), events | {"run": id}
        yield from _move(context, command.dag_id, cursor, cursor.counted)
    return (yield from get_run(context, c.GetRun(command.dag_id, command.run_id)))


def _news(dag_id: str) -> Steps[list[Cursor]]:
    """Return the cursors with new events, if enough for a run. Raise NotFound for unknown DAGs."""
    found = yield d.schedule(), {"dag_id": dag_id}
    if not found:
        raise refusals.unknown_dag(dag_id, [known for (known,) in (yield d.dag_ids(), {})])
    _, spec, paused = found[0]
    condition = condition_in(spec)
    if paused or condition is None:
        return []
    behind = yield from cursors(dag_id, condition)
    if not holds(condition, behind):
        return []
    every = {cursor.asset_id: cursor for some in behind.values() for cursor in some}
    return [cursor for _, cursor in sorted(every.items()) if cursor.has_news]
