"""Errors that all stores raise with the same messages and hints."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from holdfast.commands import CurrentIntent, RequestId
from holdfast.errors import (
    AssetInactive,
    Conflict,
    InvalidInput,
    NotFound,
    ObjectBusy,
    StaleAttempt,
    StaleRequest,
    UnknownAsset,
    UnknownTaskInstance,
    VersionConflict,
)
from holdfast.model.entry import TaskWriter
from holdfast.model.run import EmittedEvent, Process, Watch
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
    shown = _similar(scope.name or scope.uri or "", names) or names[:5]
    more = ", …" if len(shown) < len(names) else ""
    known = f"assets that are declared: {', '.join(shown)}{more}. " if names else ""
    return UnknownAsset(
        f"{scope} is not known",
        hint=f"{known}Check the name, or declare it as inlet or outlet of a task, or by hand",
    )


def _similar(sought: str, names: Sequence[str]) -> list[str]:
    """Return similar names. Only a few short names of about the same length are compared: the
    comparison is slow, and anybody can ask for a name that does not exist."""
    near = sorted(names, key=lambda name: abs(len(name) - len(sought)))[:_COMPARED]
    short = [name for name in near if len(name) <= _LONGEST_COMPARED]
    return get_close_matches(sought[:_LONGEST_COMPARED], short, n=3, cutoff=0.6)


def inactive(scope: AssetScope) -> AssetInactive:
    return AssetInactive(
        f"{scope} is inactive: no DAG declares it any more",
        hint="declare it again as inlet or outlet of a task, or by hand",
    )


def stale(writer: TaskWriter, newest: int, live: bool, reading: bool = False) -> StaleAttempt:
    now = f"attempt {newest} is under way" if live else f"attempt {newest}, the newest, has ended"
    return StaleAttempt(
        f"attempt {writer.attempt} of {writer.scope} may not {_does(reading)}: {now}",
        hint=f"{_nothing(reading)}this process is a leftover and should stop",
    )


def not_current(guard: CurrentIntent, reading: bool) -> StaleAttempt:
    return StaleAttempt(
        f"intent `{guard.intent}` under `{guard.key}` of {guard.scope} is not current any more",
        hint=f"{_nothing(reading)}another job took this one's place, or the task was cleared, so "
        "this job should stop",
    )


def job_over(guard: CurrentIntent, reading: bool) -> StaleAttempt:
    return StaleAttempt(
        f"the job of intent `{guard.intent}` may not {_does(reading)}: {guard.scope} has ended",
        hint=f"{_nothing(reading)}this job should stop; clear the task to run it again",
    )


def stale_request(request: RequestId, latest: int) -> StaleRequest:
    return StaleRequest(
        f"request {request.number} of client `{request.client}` comes after its request {latest}",
        hint="nothing was written; a client sends one request at a time, and numbers them from 1",
    )


def reused_number(request: RequestId) -> StaleRequest:
    return StaleRequest(
        f"request {request.number} of client `{request.client}` was another command before",
        hint="nothing was written; give each request a number of its own, and each client a name",
    )


def conflict(scope: StoreScope, key: str, expected: int, current: int) -> VersionConflict:
    found = f"it has version {current}" if current else "it is absent"
    wanted = f"version {expected}" if expected else "no entry"
    return VersionConflict(
        f"`{key}` of {scope}: expected {wanted}, but {found}",
        hint="nothing was written; read it again and decide anew",
    )


def taken(name: str, uri: str, other_name: str, other_uri: str) -> InvalidInput:
    return InvalidInput(
        f"asset `{name}` with URI `{uri}` clashes with asset `{other_name}` with URI `{other_uri}`",
        hint="names and URIs are unique; use the asset that exists, or change the other part too",
    )


def unknown_dag(dag_id: str, known: Sequence[str]) -> NotFound:
    shown = _similar(dag_id, known) or known[:5]
    more = ", …" if len(shown) < len(known) else ""
    hint = (
        f"DAGs that there are: {', '.join(shown)}{more}" if known else "no DAG file has been read"
    )
    return NotFound(f"DAG `{dag_id}` is not known", hint=hint)


def dag_elsewhere(dag_id: str, file: str, other: str) -> Conflict:
    return Conflict(
        f"DAG `{dag_id}` of {file} is already in {other}",
        hint="give one of them another dag_id, or take it out of the other file; of a scheduler "
        "that has stopped, it is free after half a minute",
    )


def repeated_dag(dag_id: str, file: str) -> InvalidInput:
    return InvalidInput(
        f"{file} holds more than one DAG `{dag_id}`", hint="give each a dag_id of its own"
    )


def unknown_run(dag_id: str, run_id: str) -> NotFound:
    return NotFound(
        f"{_run(dag_id, run_id)} is not known",
        hint="`holdfast runs list` shows those that there are",
    )


def run_exists(dag_id: str, run_id: str) -> Conflict:
    return Conflict(
        f"{_run(dag_id, run_id)} exists already",
        hint="choose another run id, or go on with that run",
    )


def run_ended(dag_id: str, run_id: str, state: str) -> InvalidInput:
    return InvalidInput(
        f"{_run(dag_id, run_id)} has ended: {state}",
        hint="clear those of its tasks that are to run again: `holdfast tasks clear`",
    )


def run_external(dag_id: str, run_id: str) -> InvalidInput:
    return InvalidInput(
        f"{_run(dag_id, run_id)} is external: a program that Holdfast did not start runs its tasks",
        hint="start that program again",
    )


def run_held(dag_id: str, run_id: str, owner: Process | None) -> Conflict:
    return Conflict(
        f"{_run(dag_id, run_id)} is carried out by {owner}",
        hint="wait until that process has ended; what it holds is free soon after",
    )


def runs_enough(dag_id: str, run_id: str, running: int) -> Conflict:
    return Conflict(
        f"{_run(dag_id, run_id)} waits: {running} of its DAG run already",
        hint="it begins when one of them has ended; `max_active_runs` says how many may run",
    )


def run_lost(dag_id: str, run_id: str, asker: Process, owner: Process | None) -> StaleAttempt:
    holder = f"{owner} does" if owner else "nobody does"
    return StaleAttempt(
        f"{asker} does not hold {_run(dag_id, run_id)}: {holder}",
        hint="nothing was written; this process should leave the run alone",
    )


def run_changed(dag_id: str, run_id: str) -> Conflict:
    return Conflict(
        f"run `{run_id}` of `{dag_id}` does not end yet: its tasks have changed",
        hint="somebody has cleared some; look at them again",
    )


def overtaken(scope: TaskScope, newest: int) -> StaleAttempt:
    return StaleAttempt(
        f"{scope} has attempt {newest} by now, so this one does not begin",
        hint="another process has started the task",
    )


def task_ended(scope: TaskScope, state: str) -> StaleAttempt:
    return StaleAttempt(f"{scope} has ended: {state}", hint="clear it to run it again")


def watched(asset: AssetScope, watcher: str, owner: Process | None) -> Conflict:
    return Conflict(
        f"watcher `{watcher}` of {asset} is run by {owner}",
        hint="wait until that process has ended; what it holds is free soon after",
    )


def watch_lost(watch: Watch, reading: bool = False) -> StaleAttempt:
    return StaleAttempt(
        f"watch {watch.number} of watcher `{watch.watcher}` of {watch.asset} may not "
        f"{_does(reading)}: a newer one has begun",
        hint=f"{_nothing(reading)}this process is a leftover and should stop",
    )


def not_watched(watch: Watch, event: EmittedEvent) -> InvalidInput:
    return InvalidInput(
        f"watcher `{watch.watcher}` of {watch.asset} reports an event of asset `{event.name}`",
        hint="a watcher reports events of the asset that it watches",
    )


def unknown_load(load: str) -> NotFound:
    return NotFound(
        f"the load {load} is not known, so nothing was written",
        hint="it was finished or dropped, or has gone on for more than a day; begin it anew",
    )


def out_of_step(load: str, part: int, first: int, found: int) -> Conflict:
    return Conflict(
        f"part {part} of load {load} has {found} entries, and these are to follow {first}",
        hint="send each entry of a part once, in order; drop the load to begin anew",
    )


def incomplete(load: str, part: int, expected: int, found: int) -> Conflict:
    return Conflict(
        f"the load {load} has {found:,} of the {expected:,} entries of its part {part}, so nothing "
        "was written",
        hint="the database has lost them in a crash of its server; load them again",
    )


def repeated(scope: StoreScope, key: str) -> InvalidInput:
    return InvalidInput(
        f"`{key}` of {scope} is more than once in the load, so nothing was written",
        hint="keep one row for each key of each scope: df.dropDuplicates([…])",
    )


def _does(reading: bool) -> str:
    return "read" if reading else "write"


def _nothing(reading: bool) -> str:
    return "" if reading else "nothing was written; "


def _run(dag_id: str, run_id: str) -> str:
    return f"run {dag_id}/{run_id}"


def held_back(scope: StoreScope, key: str) -> Conflict:
    return Conflict(
        f"the staged value of `{key}` of {scope} has not left its worker",
        hint="an attempt whose worker-side backend overwrites in place sends it when it succeeds",
    )


def being_deleted(scope: StoreScope, key: str) -> ObjectBusy:
    return ObjectBusy(
        f"the object for `{key}` of {scope} is just being deleted, as nothing named it",
        hint="try again in a moment; a purge that was killed holds it for five minutes at most",
    )


def not_reserved(scope: StoreScope, key: str) -> ObjectBusy:
    return ObjectBusy(
        f"the object for `{key}` of {scope} is not reserved any more, and may have been deleted",
        hint="reserve it again, and write the object again",
    )
