"""The values that the store answers with, in the shape that `--json` prints."""

from __future__ import annotations

from typing import Any

from msgspec import Raw, to_builtins

from holdfast.actions.loads import Load
from holdfast.entry import Entry, TaskWriter, Version, Writer
from holdfast.loadrecord import as_json
from holdfast.scope import StoreScope, TaskScope


def of_scope(scope: StoreScope) -> dict[str, Any]:
    if isinstance(scope, TaskScope):
        return {
            "dag_id": scope.dag_id,
            "run_id": scope.run_id,
            "task_id": scope.task_id,
            "map_index": scope.map_index,
        }
    named = {"asset": scope.name, "asset_uri": scope.uri}
    return {field: name for field, name in named.items() if name is not None}


def of_writer(writer: Writer) -> dict[str, Any]:
    if isinstance(writer, TaskWriter):
        return {"kind": "task", **of_scope(writer.scope)}
    return dict(to_builtins(writer))


def of_entry(scope: StoreScope, entry: Entry[str]) -> dict[str, Any]:
    return {
        **of_scope(scope),
        "key": entry.key,
        "value": of_value(entry.value),
        "version": entry.version,
        "updated_at": entry.updated_at,
        "expires_at": entry.expires_at,
        "writer": of_writer(entry.writer),
    }


def of_version(step: Version[str]) -> dict[str, Any]:
    return {
        "version": step.version,
        "value": of_value(step.value),
        "updated_at": step.updated_at,
        "writer": of_writer(step.writer),
    }


def of_load(load: Load) -> dict[str, Any]:
    fields = as_json(load.record)
    del fields["holdfast"]
    return {
        "key": load.key,
        **fields,
        "undone": load.undone,
        "version": load.version,
        "updated_at": load.updated_at,
        "writer": of_writer(load.writer),
    }


def of_value(text: str | None) -> Raw | None:
    """A value as it is stored, which is JSON already."""
    return None if text is None else Raw(text)
