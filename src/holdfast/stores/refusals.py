"""Errors that all stores raise with the same messages and hints."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from holdfast.commands import CurrentIntent, RequestId
from holdfast.errors import (
    AssetInactive,
    Conflict,
    InvalidInput,
    NoFreeSlot,
    NotFound,
    ObjectBusy,
    StaleAttempt,
    StaleRequest,
    UnknownAsset,
    UnknownTaskInstance,
    VersionConflict,
)
from holdfast.model.entry import TaskWriter
from holdfast.model.run import Watch
from holdfast.model.scope import AssetScope, StoreScope, TaskScope

_COMPARED = 50
_LONGEST_COMPARED = 64


def unknown_task(scope: TaskScope) -> UnknownTaskInstance:
    return UnknownTaskInstance(
        f"{scope} is not known",
        hint="check dag, run, task and map index; a run is known once it has started or a script "
        "has written to it",
    )


def unknown_asset(scope: AssetScope, names: Sequence[str]) -> UnknownAsset:
    listed = _similar(scope.name or scope.uri or "", names)
    known = f"declared assets: {listed}. " if names else ""
    return UnknownAsset(
        f"{scope} is not known",
        hint=f"{known}Check the name, or declare it as inlet or outlet of a task, or by hand",
    )


def _similar(sought: str, names: Sequence[str]) -> str:
    """List similar names, or the first ones. Only a few short names of about the same length are
    compared: the comparison is slow, and anybody can ask for a name that does not exist."""
    near = sorted(names, key=lambda name: abs(len(name) - len(sought)))[:_COMPARED]
    short = [name for name in near if len(name) <= _LONGEST_COMPARED]
    shown = get_close_matches(sought[:_LONGEST_COMPARED], short, n=3, cutoff=0.6) or names[:5]
    return ", ".join(shown) + (", …" if len(shown) < len(names) else "")


def no_pool(name: str) -> NoFreeSlot:
    return NoFreeSlot(
        f"there is no pool `{name}`", hint=f"create it: `holdfast pools set {name} SLOTS`"
    )


def unknown_pool(name: str, names: Sequence[str]) -> NotFound:
    return NotFound(f"there is no pool `{name}`", hint=f"there are: {_similar(name, names)}")


def no_free_slot(pool: str, wanted: int, free: int) -> NoFreeSlot:
    return NoFreeSlot(
        f"pool `{pool}` has {max(0, free)} free slots of the {wanted} that are needed",
        hint="wait until a task ends, or give the pool more slots",
    )


def inactive(scope: AssetScope) -> AssetInactive:
    return AssetInactive(
        f"{scope} is inactive: no DAG declares it any more",
        hint="declare it again as inlet or outlet of a task, or by hand",
    )


def stale(writer: TaskWriter, newest: int, live: bool, reading: bool = False) -> StaleAttempt:
    now = f"attempt {newest} is running" if live else f"attempt {newest}, the newest, has ended"
    return StaleAttempt(
        f"attempt {writer.attempt} of {writer.scope} may not {_does(reading)}: {now}",
        hint=f"{_nothing(reading)}this process is a leftover and should stop",
    )


def not_current(guard: CurrentIntent, reading: bool) -> StaleAttempt:
    return StaleAttempt(
        f"intent `{guard.intent}` under `{guard.key}` of {guard.scope} is not current any more",
        hint=f"{_nothing(reading)}another job has replaced this one, or the task was cleared, so "
        "this job should stop",
    )


def job_over(guard: CurrentIntent, reading: bool) -> StaleAttempt:
    return StaleAttempt(
        f"the job of intent `{guard.intent}` may not {_does(reading)}: {guard.scope} has ended",
        hint=f"{_nothing(reading)}this job should stop; clear the task to run it again",
    )


def stale_request(request: RequestId, latest: int) -> StaleRequest:
    return StaleRequest(
        f"request {request.number} of client `{request.client}` arrived after its request {latest}",
        hint="nothing was written; send one request at a time per client, numbered from 1",
    )


def reused_number(request: RequestId) -> StaleRequest:
    return StaleRequest(
        f"request {request.number} of client `{request.client}` was already used for another "
        "command",
        hint="nothing was written; use a new number for each request, and a new name for each "
        "client",
    )


def conflict(scope: StoreScope, key: str, expected: int, current: int) -> VersionConflict:
    found = f"it has version {current}" if current else "it is absent"
    wanted = f"version {expected}" if expected else "no entry"
    return VersionConflict(
        f"`{key}` of {scope}: expected {wanted}, but {found}",
        hint="nothing was written; read the entry again before you retry",
    )


def taken(name: str, uri: str, other_name: str, other_uri: str) -> InvalidInput:
    return InvalidInput(
        f"asset `{name}` with URI `{uri}` conflicts with asset `{other_name}` with URI "
        f"`{other_uri}`",
        hint="names and URIs are unique; use the asset that exists, or change the other part too",
    )


def unknown_dag(dag_id: str, known: Sequence[str]) -> NotFound:
    hint = f"known DAGs: {_similar(dag_id, known)}" if known else "no DAG file has been read"
    return NotFound(f"DAG `{dag_id}` is not known", hint=hint)


def dag_elsewhere(dag_id: str, file: str, other: str) -> Conflict:
    return Conflict(
        f"DAG `{dag_id}` of {file} is already in {other}",
        hint="give one of them another dag_id, or remove it from the other file; if another "
        "scheduler read it and has stopped, retry in half a minute",
    )


def dag_in_file(dag_id: str, file: str) -> Conflict:
    return Conflict(
        f"DAG `{dag_id}` is in {file}, which a scheduler has",
        hint="remove the file, or the DAG from it, and retry in half a minute",
    )


def dag_has_runs(dag_id: str, unfinished: int) -> Conflict:
    return Conflict(
        f"{unfinished:,} runs of DAG `{dag_id}` have not ended",
        hint="wait for their end, or stop them: `holdfast runs stop`",
    )


def unknown_run(dag_id: str, run_id: str) -> NotFound:
    hint = "`holdfast runs list` shows the known runs"
    return NotFound(f"run {dag_id}/{run_id} is not known", hint=hint)


def run_exists(dag_id: str, run_id: str) -> Conflict:
    hint = "choose another run id, or continue that run"
    return Conflict(f"run {dag_id}/{run_id} exists already", hint=hint)


def run_external(dag_id: str, run_id: str) -> InvalidInput:
    return InvalidInput(
        f"run {dag_id}/{run_id} is external: a program that Holdfast did not start runs its tasks",
        hint="start or stop that program itself",
    )


def run_leased(dag_id: str, run_id: str, owner: str) -> Conflict:
    return Conflict(
        f"run `{run_id}` of `{dag_id}` is being run by {owner}",
        hint="stop the run first: `holdfast runs stop`, or wait until it ends",
    )


def run_ended(dag_id: str, run_id: str, state: str) -> Conflict:
    return Conflict(
        f"run {dag_id}/{run_id} has ended: {state}",
        hint="there is nothing to stop; `holdfast runs mark` changes its state",
    )


def overtaken(scope: TaskScope, newest: int) -> StaleAttempt:
    return StaleAttempt(
        f"{scope} already has attempt {newest}, so this one does not start",
        hint="another process has started the task",
    )


def watch_lost(watch: Watch, reading: bool = False) -> StaleAttempt:
    return StaleAttempt(
        f"watch {watch.number} of watcher `{watch.watcher}` of {watch.asset} may not "
        f"{_does(reading)}: a newer one has begun",
        hint=f"{_nothing(reading)}this process is a leftover and should stop",
    )


def unknown_load(load: str) -> NotFound:
    return NotFound(
        f"the load {load} is not known, so nothing was written",
        hint="it was finished or dropped, or took more than a day; start it again",
    )


def out_of_step(load: str, part: int, first: int, found: int) -> Conflict:
    return Conflict(
        f"part {part} of load {load} has {found} entries, but this request continues after {first}",
        hint="send each entry of a part once, in order; drop the load to start again",
    )


def incomplete(load: str, part: int, expected: int, found: int) -> Conflict:
    return Conflict(
        f"the load {load} has {found:,} of the {expected:,} entries of its part {part}, so nothing "
        "was written",
        hint="the database server lost them in a crash; load them again",
    )


def repeated(scope: StoreScope, key: str) -> InvalidInput:
    return InvalidInput(
        f"`{key}` of {scope} occurs more than once in the load, so nothing was written",
        hint="keep one row for each key of each scope: df.dropDuplicates([…])",
    )


def _does(reading: bool) -> str:
    return "read" if reading else "write"


def _nothing(reading: bool) -> str:
    return "" if reading else "nothing was written; "


def held_back(scope: StoreScope, key: str) -> Conflict:
    return Conflict(
        f"the staged value of `{key}` of {scope} is still on its worker",
        hint="a worker-side backend that overwrites in place stores it when the attempt succeeds",
    )


def being_deleted(scope: StoreScope, key: str) -> ObjectBusy:
    return ObjectBusy(
        f"the object for `{key}` of {scope} is being deleted, because nothing referred to it",
        hint="try again in a moment; a purge that was killed holds it for five minutes at most",
    )


def not_reserved(scope: StoreScope, key: str) -> ObjectBusy:
    return ObjectBusy(
        f"the object for `{key}` of {scope} is no longer reserved, and may have been deleted",
        hint="reserve it again, and write the object again",
    )
