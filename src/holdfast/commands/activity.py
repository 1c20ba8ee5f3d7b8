"""Current activity, for monitoring."""

from __future__ import annotations

from holdfast.commands.base import Category, Command
from holdfast.model.activity import Activity


class GetActivity(Command[Activity], frozen=True):
    """Return what is going on. Its cost depends on unfinished runs, and not on ended ones."""

    category = Category.READS
