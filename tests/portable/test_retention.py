"""`expires_at` from `retention` and the configured default."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from holdfast.errors import HoldfastError
from holdfast.portable.retention import NEVER_EXPIRE, expires_at

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MONTH = timedelta(days=30)
NEVER = timedelta(0)


def test_retention_counts_from_now() -> None:
    assert expires_at(timedelta(days=7), MONTH, NOW) == datetime(2026, 1, 8, 12, tzinfo=UTC)


def test_the_shortest_retention_is_one_microsecond() -> None:
    instant = timedelta(microseconds=1)

    assert expires_at(instant, MONTH, NOW) == NOW + instant


def test_without_retention_the_default_applies() -> None:
    assert expires_at(None, MONTH, NOW) == NOW + MONTH


def test_a_default_of_zero_means_never() -> None:
    assert expires_at(None, NEVER, NOW) is None


def test_retention_overrides_the_default() -> None:
    assert expires_at(timedelta(days=7), NEVER, NOW) == NOW + timedelta(days=7)


@pytest.mark.parametrize("default", [MONTH, NEVER])
def test_never_expire_means_never_whatever_the_default(default: timedelta) -> None:
    assert expires_at(NEVER_EXPIRE, default, NOW) is None


def test_never_expire_equals_the_largest_timedelta() -> None:
    assert timedelta.max == NEVER_EXPIRE


def test_an_expiry_is_in_utc() -> None:
    local = NOW.astimezone(timezone(timedelta(hours=-8)))

    expiry = expires_at(timedelta(days=1), MONTH, local)

    assert expiry == NOW + timedelta(days=1)
    assert expiry.tzinfo is UTC
    assert expires_at(None, MONTH, local).tzinfo is UTC  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("retention", "hint"),
    [
        (7, "timedelta(days=7)"),
        (0.5, "timedelta(days=0.5)"),
        ("7d", "timedelta(days=7)"),
        (NOW, "timedelta(days=7)"),
    ],
)
def test_a_retention_that_is_not_a_timedelta_is_refused_with_a_hint(
    retention: object, hint: str
) -> None:
    with pytest.raises(TypeError) as refused:
        expires_at(retention, MONTH, NOW)  # type: ignore[arg-type]

    assert isinstance(refused.value, HoldfastError)
    assert hint in refused.value.hint


@pytest.mark.parametrize("retention", [timedelta(0), timedelta(seconds=-1), timedelta.min])
def test_a_retention_of_zero_or_less_is_refused(retention: timedelta) -> None:
    with pytest.raises(ValueError, match="would expire at once") as refused:
        expires_at(retention, MONTH, NOW)

    assert isinstance(refused.value, HoldfastError)


def test_a_retention_beyond_the_calendar_is_refused() -> None:
    with pytest.raises(ValueError, match="ends after the year 9999") as refused:
        expires_at(timedelta(days=365 * 9000), MONTH, NOW)

    assert isinstance(refused.value, HoldfastError)
    assert refused.value.hint == "use NEVER_EXPIRE"
