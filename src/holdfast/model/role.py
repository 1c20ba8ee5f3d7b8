"""Roles of people."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """What a person may do; each role includes the ones before it."""

    VIEWER = "viewer"
    """Read."""
    EDITOR = "editor"
    """Write entries, declare assets, trigger runs, clear tasks, be an attempt."""
    ADMIN = "admin"
    """Everything."""
