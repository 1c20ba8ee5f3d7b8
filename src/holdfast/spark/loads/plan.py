"""The plan of a load, stored before anything is written.

Whoever starts from the same watermark until the load succeeds (a retry, a later run, a second
load at the same time) has the same range and the same rows. So what a dead attempt has written,
in files or in a table's transaction, is what its successor would write.
"""

from __future__ import annotations

from typing import Any, Final
from uuid import uuid4

import msgspec

from holdfast.errors import InvalidInput

SUFFIX: Final = "/plan"
"""The plan of the watermark `orders` is stored as `orders/plan`."""


class Plan(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a load set out to do."""

    start: int
    """The number of the load."""
    version: int
    """The version of the watermark that it starts from."""
    rules: str
    watermark: Any
    """The value to store when the load succeeds."""
    id: str = msgspec.field(default_factory=lambda: uuid4().hex)
    numbered: bool = False
    """A table's transaction may carry the load's number: the range may not change any more."""
    session: str = ""
    """The Spark Connect session of the attempt that wrote last."""
    done: bool = False
    """The load has succeeded."""
    tries: int = 0
    """How many attempts have begun to write into a place of their own."""


def plan_in(found: Any, where: str) -> Plan:
    """Read a stored plan. Raise InvalidInput where it is none."""
    try:
        return msgspec.convert(found, Plan)
    except msgspec.ValidationError:
        raise InvalidInput(
            f"{where} is {str(found)[:60]}, which no incremental load has written",
            hint="delete that entry, or use another key= for the load",
        ) from None
