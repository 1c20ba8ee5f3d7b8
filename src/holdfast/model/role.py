"""Roles of people."""

from __future__ import annotations

from enum import StrEnum


class Role(StrEnum):
    """The permission level of a person; each role includes the ones before it."""

    VIEWER = "viewer"
    """Read."""
    EDITOR = "editor"
    """Write entries, declare assets, trigger runs, clear tasks, run attempts."""
    ADMIN = "admin"
    """Everything."""
