"""The values that the store answers with, in the shape that `--json` prints."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from msgspec import Raw, to_builtins

from holdfast.actions.loads import Load
from holdfast.cli.parameter import REFERENCE
from holdfast.errors import UnreadableValue
from holdfast.model.entry import Entry, TaskWriter, Version, Writer
from holdfast.model.load_record import as_json
from holdfast.model.scope import StoreScope, TaskScope
from holdfast.model.value import reference_in, shown_json
from holdfast.portable.identifier import one_line


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
        **of_stored(entry.value),
        "version": entry.version,
        "updated_at": entry.updated_at,
        "expires_at": entry.expires_at,
        "writer": of_writer(entry.writer),
    }


def of_version(step: Version[str]) -> dict[str, Any]:
    return {
        "version": step.version,
        **of_stored(step.value),
        "updated_at": step.updated_at,
        "writer": of_writer(step.writer),
    }


def of_load(load: Load) -> dict[str, Any]:
    fields = as_json(load.record)
    del fields["holdfast"]
    return {
        "key": load.key,
        **fields,
        "undone": load.is_void,
        "version": load.version,
        "updated_at": load.updated_at,
        "writer": of_writer(load.writer),
    }


def of_value(text: str) -> Raw:
    """JSON text, as what it says."""
    return Raw(text)


def of_stored(text: str | None) -> dict[str, Any]:
    """A value as its writer knows it, or the reference to it; both are null where there is none, or
    what is stored is not JSON."""
    reference = None if text is None else reference_in(text)
    value = None
    if text is not None and reference is None:
        with suppress(UnreadableValue):
            value = Raw(shown_json(text, ""))
    return {"value": value, "reference": reference}


def cell(text: str) -> str:
    """A value for a table, as its writer knows it. References and what is not JSON are marked."""
    if (reference := reference_in(text)) is not None:
        return REFERENCE + one_line(reference)
    try:
        return shown_json(text, "")
    except UnreadableValue:
        return f"(not JSON) {one_line(text)}"


def line(text: str, where: str) -> str:
    """A value for programs, as its writer knows it. A reference is no JSON, so that it is never
    taken for a value. UnreadableValue, which says where, for what is not JSON."""
    reference = reference_in(text)
    return shown_json(text, where) if reference is None else REFERENCE + one_line(reference)
