"""Answers of the store in the form that `--json` and tables print."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from holdfast.actions.loads import Load
from holdfast.cli.parameter import REFERENCE
from holdfast.errors import UnreadableValue
from holdfast.model import presentation
from holdfast.model.entry import Entry, Version
from holdfast.model.load_record import as_json
from holdfast.model.presentation import of_scope, of_writer
from holdfast.model.scope import StoreScope
from holdfast.model.value import reference_in, shown_json
from holdfast.portable.identifier import one_line


def of_entry(scope: StoreScope, entry: Entry[str]) -> dict[str, Any]:
    return {**of_scope(scope), **presentation.of_entry(entry, _read)}


def of_version(step: Version[str]) -> dict[str, Any]:
    return presentation.of_version(step, _read)


def of_load(load: Load) -> dict[str, Any]:
    fields = as_json(load.record)
    del fields["holdfast"]
    return {
        "key": load.key,
        **fields,
        "undone": load.is_void,
        "version": load.version,
        "updated_at": load.updated_at,
        "last_updated_by": of_writer(load.writer),
    }


def cell(text: str) -> str:
    """Return a value for a table, as its writer knows it. References and non-JSON are marked."""
    if (reference := reference_in(text)) is not None:
        return REFERENCE + one_line(reference)
    try:
        return shown_json(text, "")
    except UnreadableValue:
        return f"(not JSON) {one_line(text)}"


def line(text: str, where: str) -> str:
    """Return a value for programs, as its writer knows it. A reference is printed as text that is
    not JSON, so that it is never taken for a value. Raise UnreadableValue, which names `where`, for
    text that is not JSON."""
    reference = reference_in(text)
    return shown_json(text, where) if reference is None else REFERENCE + one_line(reference)


def as_written(text: str) -> Raw:
    """Return JSON text, to be printed as it is."""
    return Raw(text)


def _read(text: str, where: str) -> Raw:
    return Raw(shown_json(text, where))
