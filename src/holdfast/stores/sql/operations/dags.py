"""DAG files and the DAGs in them."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

import msgspec

from holdfast import commands as c
from holdfast.errors import InvalidInput
from holdfast.model.dag import AliasSpec, DagSpec, OnAssets
from holdfast.model.run import DagInfo, FileInfo
from holdfast.stores import refusals
from holdfast.stores.sql import rows, run_rows
from holdfast.stores.sql.operations.asset_schedules import condition_in, follow, leaves
from holdfast.stores.sql.operations.measuring import up_to_size
from holdfast.stores.sql.operations.registry import declare_for_dag, settle_assets
from holdfast.stores.sql.operations.runs import lock_dag_to_delete, unknown_dag
from holdfast.stores.sql.operations.steps import BEGIN, Context, Steps, window
from holdfast.stores.sql.statements import assets as s
from holdfast.stores.sql.statements import dags as d
from holdfast.stores.sql.statements import entries as n
from holdfast.stores.sql.statements import events as e
from holdfast.stores.sql.statements import runs as r

_SEEN_AT_ONCE: Final = 500
_ERRORS_KEPT: Final = timedelta(hours=1)
"""Schedulers report an error again at least every 10 minutes."""


def save_file(context: Context, command: c.SaveFile) -> Steps[None]:
    specs = {spec.dag_id: spec for spec in command.dags}
    if len(specs) < len(command.dags):
        ids = [spec.dag_id for spec in command.dags]
        raise InvalidInput(
            f"{command.file} holds more than one DAG `{max(ids, key=ids.count)}`",
            hint="give each its own dag_id",
        )
    yield BEGIN
    if command.seen:
        yield from _save(context, command.file, error=None)
    else:  # a copy of the file, of which a scheduler's error says nothing
        yield d.add_file(type(context.dialect)), _digest(command.file) | {"file": command.file}
    for _, spec in sorted(specs.items()):
        yield from _save_dag(context, command, spec)
    for dag_id in sorted(set(command.left) - specs.keys()):
        yield from _let_go(context, command.file, dag_id)
    yield from settle_assets()


def save_file_error(context: Context, command: c.SaveFileError) -> Steps[None]:
    yield from _save(context, command.file, command.error)


def forget_file(context: Context, command: c.ForgetFile) -> Steps[None]:
    yield BEGIN
    digest = _digest(command.file)
    yield d.lock_file(), digest  # block a concurrent save: its DAGs would go with the row
    for dag_id in sorted(command.dag_ids):
        yield from _let_go(context, command.file, dag_id, command.unless_seen)
    if not (yield d.dags_of_file(), digest):
        yield d.forget_file(), digest


def see_dags(context: Context, command: c.SeeDags) -> Steps[tuple[str, ...]]:
    held: set[str] = set()
    for start in range(0, len(command.dag_ids), _SEEN_AT_ONCE):
        some = command.dag_ids[start : start + _SEEN_AT_ONCE]
        ids = {f"dag_id_is_{i}": dag_id for i, dag_id in enumerate(some)}
        yield d.see_dags(len(some)), ids
        held |= {dag_id for (dag_id,) in (yield d.held_dags(len(some)), ids)}
    return tuple(dag_id for dag_id in command.dag_ids if dag_id not in held)


def retire_dags(context: Context, command: c.RetireDags) -> Steps[tuple[str, ...]]:
    after = {"after": rows.microseconds(command.after)}
    yield BEGIN
    unseen = yield d.unseen_dags(), after
    for dag_id, file_digest in unseen:
        if file_digest == d.NOWHERE:
            yield s.drop_declarations(), {"dag_id": dag_id}
        yield d.retire_dag(), {"dag_id": dag_id}
    if unseen:
        yield from settle_assets()
    forgotten_after = rows.microseconds(max(command.after, _ERRORS_KEPT))
    yield d.forget_old_errors(), {"after": forgotten_after}
    return tuple(dag_id for dag_id, _ in unseen)


def list_files(context: Context, command: c.ListFiles) -> Steps[tuple[FileInfo, ...]]:
    select, page = d.files(command.broken), window(command.limit, command.offset)
    found, _ = yield from up_to_size((select, page), n.measured(select, "error"), command.max_size)
    return tuple(map(run_rows.file, found))


def list_dags(context: Context, command: c.ListDags) -> Steps[tuple[DagInfo, ...]]:
    found = yield d.dags(command.specs), window(command.limit, command.offset)
    return tuple(run_rows.dag(row) for row in found)


def get_dag(context: Context, command: c.GetDag) -> Steps[DagInfo]:
    found = yield d.dag(), {"dag_id": command.dag_id}
    if not found:
        raise (yield from unknown_dag(command.dag_id))
    return run_rows.dag(found[0])


def pause_dag(context: Context, command: c.PauseDag) -> Steps[None]:
    changed = yield d.pause_dag(), {"dag_id": command.dag_id, "paused": command.paused}
    if not changed:
        raise (yield from unknown_dag(command.dag_id))


def delete_dag(context: Context, command: c.DeleteDag) -> Steps[None]:
    yield BEGIN
    dag_id = {"dag_id": command.dag_id}
    holder = yield from lock_dag_to_delete(command.dag_id)
    [(unfinished,)] = yield r.count_unfinished(), dag_id
    if unfinished:
        raise refusals.dag_has_runs(command.dag_id, unfinished)
    if command.dry_run:
        return
    yield s.drop_declarations(), dag_id
    yield d.delete_dag(), dag_id
    if holder != d.NOWHERE and not (yield d.dags_of_file(), {"digest": holder}):
        yield d.forget_file(), {"digest": holder}
    yield from settle_assets()


def _digest(file: str) -> dict[str, str]:
    return {"digest": rows.digest(file)}


def _save(context: Context, file: str, error: str | None) -> Steps[None]:
    yield d.save_file(type(context.dialect)), _digest(file) | {"file": file, "error": error}


def _save_dag(context: Context, command: c.SaveFile, spec: DagSpec) -> Steps[None]:
    dag: dict[str, Any] = {"dag_id": spec.dag_id, "spec": msgspec.json.encode(spec).decode()}
    dag |= _digest(command.file) | {"seen": command.seen}
    before = None
    found = yield d.lock_dag(), dag
    if found:
        holder, known, _, ever_seen, seen_lately = found[0]
        if holder not in (dag["digest"], d.NOWHERE) and seen_lately:
            [(other,)] = yield d.file_name(), {"digest": holder}
            if other not in command.taken_from:
                raise refusals.dag_elsewhere(spec.dag_id, command.file, other)
        if ever_seen and not command.seen:
            yield from _declare(context, spec, also=msgspec.json.decode(known, type=DagSpec))
            return
        before = condition_in(known)
        yield d.change_dag(), dag
    else:
        yield d.add_dag(), dag | {"paused": spec.paused_at_first}
    yield from _declare(context, spec)
    yield from follow(context, spec.dag_id, before, condition_in(dag["spec"]))


def _declare(context: Context, spec: DagSpec, also: DagSpec | None = None) -> Steps[None]:
    assets: set[tuple[str, str]] = set()
    for one in (spec, also or spec):
        assets |= {(asset.name, asset.uri) for asset in one.assets}
        for alias in _aliases(one):
            behind = yield e.assets_behind(), {"alias_digest": rows.digest(alias)}
            assets |= {(info.name, info.uri) for info in rows.assets(behind)}
    yield from declare_for_dag(context, c.DeclareDagAssets(spec.dag_id, tuple(sorted(assets))))


def _aliases(spec: DagSpec) -> Iterator[str]:
    """Yield the aliases that a DAG names: it declares the assets behind them too."""
    named = [one for task in spec.tasks for one in (*task.inlets, *task.outlets)]
    if isinstance(spec.schedule, OnAssets):
        named += leaves(spec.schedule.condition)
    return (one.name for one in named if isinstance(one, AliasSpec))


def _let_go(context: Context, file: str, dag_id: str, unless_seen: bool = False) -> Steps[None]:
    yield d.add_nowhere(type(context.dialect)), {}
    yield d.let_go_of_dag(unless_seen), _digest(file) | {"dag_id": dag_id}
