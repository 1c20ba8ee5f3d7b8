"""Durations as people write them: `30s`, `5m`, `1h`, `7d`."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

_UNITS: Final = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_DURATION: Final = re.compile(r"(\d+)([dhms])", re.ASCII)


def duration(text: str) -> timedelta:
    """Parse a duration such as `30s`, `5m`, `1h`, `7d` or `0`. Raise ValueError for other text."""
    if text == "0":
        return timedelta(0)
    match = _DURATION.fullmatch(text)
    if match is None:
        raise ValueError(f"not a duration: {text!r}")
    try:
        return timedelta(**{_UNITS[match[2]]: int(match[1])})
    except OverflowError:
        raise ValueError(f"duration too long: {text!r}") from None


def duration_text(length: timedelta) -> str:
    """Return the duration as text that `duration` parses."""
    for unit, name in _UNITS.items():
        amount, rest = divmod(length, timedelta(**{name: 1}))
        if amount and not rest:
            return f"{amount}{unit}"
    return "0"
