"""What a task asks its supervisor for an endpoint for."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class JobName(msgspec.Struct, frozen=True, tag="job"):
    """A job that a task submits: the intent, and the key of the task store that it is stored at."""

    key: str
    intent: str


class Tables(msgspec.Struct, frozen=True, tag="tables"):
    """The data source, which may read the state of other tasks, too."""


Purpose: TypeAlias = JobName | Tables | None
"""What a task wants an endpoint for; None: its own stores."""
