"""Purposes for which a task requests an endpoint from its supervisor."""

from __future__ import annotations

from typing import TypeAlias

import msgspec


class JobName(msgspec.Struct, frozen=True, tag="job"):
    """A job that a task submits: its intent, and the key of the task store that holds it."""

    key: str
    intent: str


class Tables(msgspec.Struct, frozen=True, tag="tables"):
    """The data source, which may also read the state of other tasks."""


Purpose: TypeAlias = JobName | Tables | None
"""The purpose of an endpoint; None: the task's own stores."""
