"""Expiry of entries: `expires_at`, from `retention` and the configured default."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from holdfast.errors import InvalidInput, InvalidType

NEVER_EXPIRE: Final = timedelta.max
"""Value for `retention`: the entry never expires, whatever the configuration says."""


def expires_at(retention: timedelta | None, default: timedelta, now: datetime) -> datetime | None:
    """Return when an entry written now expires; None for never. A `default` of zero means never.

    Raise InvalidType or InvalidInput for an invalid `retention`.
    """
    if retention is None:
        return now.astimezone(UTC) + default if default else None
    if not isinstance(retention, timedelta):
        amount = retention if isinstance(retention, int | float) and retention > 0 else 7
        raise InvalidType(
            f"retention must be a timedelta, not {retention!r}",
            hint=f"retention=timedelta(days={amount})",
        )
    if retention == NEVER_EXPIRE:
        return None
    if retention <= timedelta(0):
        raise InvalidInput(
            f"retention is {retention}, so the entry would expire at once",
            hint="give a positive timedelta, or NEVER_EXPIRE",
        )
    try:
        return now.astimezone(UTC) + retention
    except OverflowError:
        raise InvalidInput(
            f"retention of {retention.days} days ends after the year 9999", hint="use NEVER_EXPIRE"
        ) from None
