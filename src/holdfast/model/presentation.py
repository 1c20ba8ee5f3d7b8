"""Entries, versions and writers in the form that people and programs see.

The CLI's `--json` and the public API share it. They differ only in how they read a value: the CLI
prints its JSON text, the API decodes it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

from msgspec import to_builtins

from holdfast.errors import UnreadableValue
from holdfast.model.entry import Entry, TaskWriter, Version, Writer
from holdfast.model.scope import StoreScope, TaskScope
from holdfast.model.value import reference_in

Read: TypeAlias = Callable[[str, str], Any]
"""A function that reads the text of a value; UnreadableValue names its second argument."""


def of_scope(scope: StoreScope) -> dict[str, Any]:
    """Return the ids of a task instance, or the name and URI of an asset as far as known."""
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
    """Return the kind of a writer, and its ids."""
    if isinstance(writer, TaskWriter):
        return {"kind": "task", **of_scope(writer.scope)}
    return dict(to_builtins(writer))


def of_value(text: str | None, read: Read) -> dict[str, Any]:
    """Return a value as its writer knows it, or the reference to it; both are None where there is
    none, or where the stored text is not JSON."""
    reference = None if text is None else reference_in(text)
    value = None
    if text is not None and reference is None:
        with suppress(UnreadableValue):
            value = read(text, "")
    return {"value": value, "reference": reference}


def of_entry(entry: Entry[str], read: Read) -> dict[str, Any]:
    """Return the fields of an entry."""
    return {
        "key": entry.key,
        **of_value(entry.value, read),
        "version": entry.version,
        "updated_at": entry.updated_at,
        "expires_at": entry.expires_at,
        "last_updated_by": of_writer(entry.writer),
    }


def of_version(step: Version[str], read: Read) -> dict[str, Any]:
    """Return the fields of a version."""
    return {
        "version": step.version,
        **of_value(step.value, read),
        "deleted": step.value is None,
        "updated_at": step.updated_at,
        "last_updated_by": of_writer(step.writer),
    }
