"""Commands of cleanup: expired entries, orphaned assets and old requests."""

from __future__ import annotations

from datetime import datetime

from holdfast.commands.base import Category, Command
from holdfast.model.entry import AssetInfo, BackendCleanup, Expired


class CountExpired(Command[int], frozen=True):
    """Count the task entries that had expired by the cut-off."""

    category = Category.READS
    touches_entries = True

    cutoff: datetime


class ListExpired(Command[tuple[Expired, ...]], frozen=True):
    """List up to `limit` expired task entries, in order of expiry, starting after the given one."""

    category = Category.READS
    touches_entries = True
    paged = True

    cutoff: datetime
    limit: int
    after: Expired | None = None


class DeleteExpired(Command[int], frozen=True):
    """Delete up to `limit` expired task entries (0: all) in one transaction; return how many."""

    touches_entries = True

    cutoff: datetime
    limit: int = 0
    skip_held: bool = False
    """Skip rows that a writer has locked, instead of waiting for it."""


class TakeExpired(Command[tuple[Expired, ...]], frozen=True):
    """Delete up to `limit` expired task entries in one transaction; return them."""

    touches_entries = True
    paged = True
    repeatable = False

    cutoff: datetime
    limit: int


class CleanUpBackend(Command[BackendCleanup], frozen=True):
    """Run the cleanup of a custom backend, whose rows the commands above cannot see; or only report
    whether it has one."""

    dry_run: bool = False


class ListOrphans(Command[tuple[AssetInfo, ...]], frozen=True):
    """List the assets deactivated by the cut-off that still have entries or history."""

    category = Category.READS

    cutoff: datetime


class DeleteOrphans(Command[int], frozen=True):
    """Delete the entries and history of assets deactivated by the cut-off; return how many assets
    had any. The assets stay registered, so that version numbers continue if one comes back."""

    touches_entries = True

    cutoff: datetime


class ForgetRequests(Command[int], frozen=True):
    """Delete the stored requests of clients that are silent since the cut-off; return how many."""

    cutoff: datetime
