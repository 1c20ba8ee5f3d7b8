"""Values of subclasses, such as pendulum's dates, as values of the classes that encoders know."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any


def base_datetime(moment: datetime) -> datetime:
    """Return the same moment as a plain datetime."""
    clock = (moment.hour, moment.minute, moment.second, moment.microsecond)
    day = (moment.year, moment.month, moment.day)
    return datetime(*day, *clock, tzinfo=moment.tzinfo, fold=moment.fold)


def base_timedelta(span: timedelta) -> timedelta:
    """Return the same span as a plain timedelta, whatever the subclass calls days and seconds."""
    days, seconds, micros = (
        vars(timedelta)[part].__get__(span) for part in ("days", "seconds", "microseconds")
    )
    return timedelta(days, seconds, micros)


def base_value(value: Any) -> Any:
    """Return a value that an encoder knows; encoders call this hook for all others."""
    match value:
        case datetime():
            return base_datetime(value)
        case timedelta():
            return base_timedelta(value)
        case str():
            return str.__str__(value)
        case int():
            return int.__int__(value)
        case float():
            return float.__float__(value)
    raise TypeError(f"{value!r:.60}, of type {type(value).__name__}, cannot be sent or stored")
