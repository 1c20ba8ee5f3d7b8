"""The record that each incremental load leaves in the asset store, next to its watermark.

A load that succeeds writes it in one transaction with the watermark, under the watermark's key and
`RECORD_SUFFIX`. The history of that entry is the list of the asset's loads.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

RECORD_SUFFIX: Final = "/load"

_TAG_FIELD: Final = "holdfast"
_TAG: Final = "load"


class LoadRecord(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag=_TAG,
    tag_field=_TAG_FIELD,
    rename={"from_": "from"},
):
    """One load that succeeded."""

    name: str
    """The name of the directory in which the load wrote, wherever that is."""
    number: int
    """The version of the watermark's entry that the load started from."""
    kind: str
    """`load`, which moved the watermark, or `backfill`, which did not."""
    cursor: str
    type: str
    """The cursor's type, as the watermark names it."""
    from_: str | int | None
    """Where the range begins; None: it has no beginning."""
    to: str | int | None
    rows: int | None
    """None where nobody counted them."""
    started_at: str
    seconds: float
    beyond: int = 0
    """How many rows were beyond the end, and are left for a later load."""
    directories: tuple[str, ...] = ()
    checks: dict[str, int] = {}
    """For each check, how many rows failed it."""
    quarantined: int = 0
    quarantine: str | None = None
    """The directory of the rows that failed a check."""


def as_json(record: LoadRecord) -> dict[str, Any]:
    """Return the value to store."""
    value: dict[str, Any] = msgspec.to_builtins(record)
    return value


def record_in(value: Any) -> LoadRecord | None:
    """Return the record that a stored value is; None where it is something else."""
    if not isinstance(value, dict) or value.get(_TAG_FIELD) != _TAG:
        return None
    try:
        return msgspec.convert(value, LoadRecord)
    except msgspec.ValidationError:
        return None
