"""Conversion between rows and the values of `holdfast.model.run`."""

from __future__ import annotations

from functools import lru_cache

import msgspec

from holdfast.model.plain_types import base_value
from holdfast.model.run import (
    AssetEvent,
    AttemptInfo,
    DagInfo,
    FileInfo,
    Outcome,
    Process,
    Run,
    RunKind,
    RunState,
    TaskInstance,
    TaskState,
    Watch,
    WatchInfo,
)
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.stores.sql.rows import Row, instant, time_of

_OPEN = (TaskState.SCHEDULED.value, TaskState.UP_FOR_RETRY.value)
_encode = msgspec.json.Encoder(enc_hook=base_value).encode
_decode_process = msgspec.json.Decoder(Process).decode
_decode_scope = msgspec.json.Decoder(TaskScope).decode


def process_column(process: Process | None) -> str | None:
    return None if process is None else _encode(process).decode()


def process(column: str | None) -> Process | None:
    return None if column is None else _decode_process(column)


def source_column(scope: TaskScope | None) -> str | None:
    return None if scope is None else _encode(scope).decode()


def run(row: Row) -> Run:
    dag_id, run_id, kind, state, logical_date, start, end, conf = row[:8]
    created_at, started_at, ended_at, owner, leased_until, error = row[8:]
    return Run(
        dag_id=dag_id,
        run_id=run_id,
        kind=RunKind(kind),
        state=RunState(state),
        logical_date=time_of(logical_date),
        data_interval_start=time_of(start),
        data_interval_end=time_of(end),
        conf=conf or "{}",
        created_at=instant(created_at),
        started_at=time_of(started_at),
        ended_at=time_of(ended_at),
        owner=process(owner) if ended_at is None else None,
        leased_until=time_of(leased_until),
        error=error or "",
    )


def task_instance(row: Row) -> TaskInstance:
    state, attempt, failures, interruptions, ready_at, started_at, ended_at, error, waits = row[4:]
    return TaskInstance(
        scope=TaskScope(*row[:4]),
        state=None if state is None else TaskState(state),
        attempt=attempt,
        failures=failures,
        interruptions=interruptions,
        ready_at=time_of(ready_at),
        started_at=time_of(started_at),
        ended_at=time_of(ended_at),
        error=error or "",
        waits_for=_reason(waits, row[2]) if waits is not None and state in _OPEN else "",
    )


@lru_cache(maxsize=16)
def _reasons(waits: str) -> dict[str, str]:
    return msgspec.json.decode(waits, type=dict[str, str])


def _reason(waits: str, task_id: str) -> str:
    return _reasons(waits).get(task_id, "")


def attempt(row: Row, scope: TaskScope) -> AttemptInfo:
    number, started_at, ended_at, outcome, error, exit_status, signal, worker = row
    return AttemptInfo(
        scope=scope,
        number=number,
        started_at=instant(started_at),
        ended_at=time_of(ended_at),
        outcome=None if outcome is None else Outcome(outcome),
        error=error or "",
        exit_status=exit_status,
        signal=signal,
        worker=process(worker),
    )


def asset_event(row: Row) -> AssetEvent:
    id, name, uri, number, at, extra, source, user, key = row
    return AssetEvent(
        asset=AssetScope(id, name, uri),
        number=number,
        at=instant(at),
        extra=extra,
        source=None if source is None else _decode_scope(source),
        user=user,
        key=key,
    )


def dag(row: Row) -> DagInfo:
    dag_id, file, spec, paused, scheduled_until, saved_at, created_at, seen_at, stale_at = row
    return DagInfo(
        dag_id=dag_id,
        file=file,
        spec=spec,
        paused=bool(paused),
        scheduled_until=time_of(scheduled_until),
        created_at=instant(created_at),
        saved_at=instant(saved_at),
        seen_at=time_of(seen_at),
        stale_at=time_of(stale_at),
    )


def file(row: Row) -> FileInfo:
    name, saved_at, error = row
    return FileInfo(name, instant(saved_at), error or "")


def watch(row: Row) -> WatchInfo:
    asset_id, asset_name, uri, name, number, owner, leased_until = row
    return WatchInfo(
        watch=Watch(AssetScope(asset_id, asset_name, uri), name, number),
        owner=process(owner),
        leased_until=time_of(leased_until),
    )
