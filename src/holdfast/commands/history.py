"""The history of an asset's entries, and rewinds."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from holdfast.commands.base import Category, KeyCommand, count_within
from holdfast.model.entry import Version, Writer
from holdfast.model.rewind import AtTime as AtTime
from holdfast.model.rewind import BeforeRun as BeforeRun
from holdfast.model.rewind import Target as Target
from holdfast.model.rewind import ToVersion as ToVersion
from holdfast.model.scope import AssetScope


class History(KeyCommand[tuple[Version[str], ...]], frozen=True):
    """Return the last versions of an asset's entry, newest first, deletions included."""

    category = Category.READS_ENTRIES
    touches_entries = True
    sized = True
    measured = attrgetter("value")
    goes_on = "before", attrgetter("version")

    scope: AssetScope
    before: int | None = None
    """Only versions before that one."""
    max_size: int | None = None
    """Limit in characters of values: the answer ends with the version that exceeds it."""


def steps_of(history: Sequence[Version[str]], command: History) -> tuple[Version[str], ...]:
    """Return the versions that a command asks for, out of all versions, newest first."""
    steps = [step for step in history if command.before is None or step.version < command.before]
    return tuple(steps[: count_within((len(step.value or "") for step in steps), command.max_size)])


class Rewind(KeyCommand[Version[str] | None], frozen=True):
    """Restore an old value, as a new version; return the version that was restored.

    None, or a version without a value, means that the entry was absent then, and is again.
    """

    category = Category.WRITES_ENTRIES
    touches_entries = True

    scope: AssetScope
    to: Target
    writer: Writer
    dry_run: bool = False

    @property
    def reads(self) -> bool:
        return self.dry_run

    @property
    def repeatable(self) -> bool:
        return self.dry_run
