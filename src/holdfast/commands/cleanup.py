"""Removing what has expired, or what nobody needs any more."""

from __future__ import annotations

from datetime import datetime

from holdfast.commands.base import Category, Command
from holdfast.model.entry import AssetInfo, BackendCleanup, Expired


class CountExpired(Command[int], frozen=True):
    """How many task entries had expired by the cut-off."""

    category = Category.READS
    touches_entries = True

    cutoff: datetime


class ListExpired(Command[tuple[Expired, ...]], frozen=True):
    """Up to `limit` of them, in order of expiry, from after the given one on."""

    category = Category.READS
    touches_entries = True
    paged = True

    cutoff: datetime
    limit: int
    after: Expired | None = None


class DeleteExpired(Command[int], frozen=True):
    """Delete up to `limit` of them (0: all) in one transaction; answers how many went."""

    touches_entries = True

    cutoff: datetime
    limit: int = 0
    skip_held: bool = False
    """Pass over rows that a writer holds, instead of waiting for it."""


class TakeExpired(Command[tuple[Expired, ...]], frozen=True):
    """Delete up to `limit` of them in one transaction; answers which went."""

    touches_entries = True
    paged = True

    cutoff: datetime
    limit: int


class CleanUpBackend(Command[BackendCleanup], frozen=True):
    """Let a custom backend, whose rows the commands above cannot see, run its own cleanup; or only
    say whether it has one."""

    dry_run: bool = False


class ListOrphans(Command[tuple[AssetInfo, ...]], frozen=True):
    """Assets deactivated by the cut-off that still have entries or history."""

    category = Category.READS

    cutoff: datetime


class DeleteOrphans(Command[int], frozen=True):
    """Delete the entries and history of assets deactivated by the cut-off; answers how many
    assets had any. They stay known, so that versions go on growing if one comes back."""

    touches_entries = True

    cutoff: datetime


class ForgetRequests(Command[int], frozen=True):
    """Forget clients that have sent nothing since the cut-off; answers how many."""

    cutoff: datetime
