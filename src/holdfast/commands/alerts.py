"""Alerts: raised with the state that they are about, then taken and delivered."""

from __future__ import annotations

from datetime import timedelta
from operator import attrgetter

import msgspec

from holdfast.commands.base import Category, Command
from holdfast.model.alert import Alert, AlertStatus, Channel


class NewAlert(msgspec.Struct, frozen=True):
    """An alert to raise."""

    channels: tuple[Channel, ...]
    facts: str


class CheckConditions(Command[tuple[str, ...] | None], frozen=True, kw_only=True):
    """Raise an alert for each DAG file that cannot be used and each asset that is late, unless
    there is one, and resolve the alerts whose condition has ended.

    Return the names in `late_after` that no asset has. Return None, and do nothing, if another
    process has checked within the interval.
    """

    channel: Channel
    late_after: dict[str, timedelta]
    """The longest time without an event, by the name of the asset."""
    interval: timedelta


class TakeAlert(Command[Alert | None], frozen=True, kw_only=True):
    """Take an alert that is due for delivery, if there is one; new ones come before those that
    failed. Nobody else gets it until the lease expires."""

    channel: Channel
    lease: timedelta


class WithdrawAlerts(Command[None], frozen=True):
    """Deliver no alert of a channel that is no longer configured."""

    channel: Channel


class FinishAlert(Command[None], frozen=True, kw_only=True):
    """Record that an alert was delivered with a status, or why it was not."""

    alert_id: int
    status: AlertStatus
    error: str = ""
    """Empty: it was delivered."""
    retry_after: timedelta | None = None
    """When to try again after an error; None: never."""


class ListAlerts(Command[tuple[Alert, ...]], frozen=True):
    """List alerts, newest first."""

    category = Category.READS
    paged = True
    sized = True
    measured = attrgetter("facts")
    identity = attrgetter("id")

    limit: int | None = None
    offset: int = 0
    max_size: int | None = None
    """Limit in characters of facts: the answer ends with the alert that exceeds it."""
