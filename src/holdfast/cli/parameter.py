"""Arguments and options that several commands share, or that need parsing."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta, tzinfo

import click

from holdfast.errors import InvalidInput
from holdfast.model.duration import duration
from holdfast.model.value import check_key, decode, parse
from holdfast.portable.identifier import check_id, check_text
from holdfast.portable.retention import NEVER_EXPIRE
from holdfast.settings import A_CENTURY

REFERENCE = "reference to "
"""The prefix with which a reference is printed in place of a value."""


def whole_number(lowest: int, highest: int) -> Callable[[str | int], int]:
    """Return a type for integers whose range, unlike that of click's, is not shown in the help."""

    def integer(text: str | int) -> int:
        with suppress(ValueError):
            if lowest <= int(text) <= highest:
                return int(text)
        raise click.BadParameter(f"{text!r} is not a whole number from {lowest} to {highest}.")

    return integer


COUNT = whole_number(0, 2**31 - 1)
MAP_INDEX = whole_number(-1, 2**31 - 1)
VERSION = whole_number(0, 2**63 - 1)


class Id(click.ParamType[str]):
    """A type for ids of DAGs, runs and tasks."""

    name = "id"

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return check_id(param.opts[0] if param else "the id", value)


ID = Id()


class Duration(click.ParamType[timedelta]):
    """A type for durations of at most a century, which may be 0 where `zero` is set."""

    name = "duration"

    def __init__(self, *, zero: bool = False) -> None:
        self._shortest = timedelta(0) if zero else timedelta(seconds=1)

    def convert(
        self, value: str | timedelta, param: click.Parameter | None, ctx: click.Context | None
    ) -> timedelta:
        with suppress(ValueError):
            length = value if isinstance(value, timedelta) else duration(value)
            if self._shortest <= length <= timedelta(days=A_CENTURY):
                return length
        zero = "" if self._shortest else ", or 0"
        raise click.BadParameter(
            f"{value!r} is not a duration such as 30s, 5m, 1h or 7d{zero}, up to {A_CENTURY}d."
        )


def moment(
    option: str, text: str, zone: tzinfo | None = None, *, end_of_day: bool = False
) -> datetime:
    """Parse a time, which may have its own time zone, or a date in the zone that is given. Raise
    InvalidInput."""
    try:
        time = datetime.fromisoformat(text)
    except ValueError:
        example = "2026-01-31T12:00:00Z" if zone is None else "2026-01-31 or 2026-01-31T12:00:00Z"
        what = "time" if zone is None else "date"
        raise InvalidInput(f"{option} is not a {what}: {text!r}", hint=f"write {example}") from None
    if end_of_day and len(text) <= len("2026-01-31"):
        time = time.replace(hour=23, minute=59, second=59, microsecond=999999)
    if time.tzinfo is None:
        if zone is None:
            raise InvalidInput(
                f"{option} has no time zone: {text!r}", hint=f"for UTC, write {time.isoformat()}Z"
            )
        time = time.replace(tzinfo=zone)
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(
            f"{option} is out of range: {text!r}", hint="in UTC, the year must be 1 to 9999"
        ) from None


def _key(ctx: click.Context, parameter: click.Parameter, key: str) -> str:
    check_key(key)
    return key


def _prefix(ctx: click.Context, parameter: click.Parameter, prefix: str) -> str:
    check_text("--prefix", prefix)
    return prefix


def _value(ctx: click.Context, parameter: click.Parameter, text: str) -> str:
    if text == "-":
        try:
            text = sys.stdin.buffer.read().decode()
        except UnicodeDecodeError as error:
            raise InvalidInput(f"stdin is not UTF-8 text: {error}") from None
    if text.startswith(REFERENCE):
        raise InvalidInput(
            f"VALUE is a {text.strip()}, which cannot be stored as a value",
            hint="`holdfast state-store copy` copies entries with their references; `export "
            "--resolve` fetches the values",
        )
    return parse(text)


def _retention(
    ctx: click.Context, parameter: click.Parameter, text: str | None
) -> timedelta | None:
    if text is None:
        return None
    try:
        length = NEVER_EXPIRE if text == "never" else duration(text)
    except ValueError:
        length = timedelta(0)
    if not length:
        raise InvalidInput(
            f"--retention may not be {text!r}", hint="write 30s, 5m, 1h, 7d or never"
        )
    return length


def _object(ctx: click.Context, parameter: click.Parameter, text: str | None) -> str | None:
    if text is None:
        return None
    found = parse(text)
    if not isinstance(decode(found), dict):
        raise InvalidInput(
            f"--{parameter.name} is not a JSON object: {text}", hint="""write '{"key": "value"}'"""
        )
    return found


def _time(ctx: click.Context, parameter: click.Parameter, text: str | None) -> datetime | None:
    return None if text is None else moment("--at", text)


conf_option = click.option(
    "--conf", metavar="JSON", callback=_object, help="The run's configuration, a JSON object."
)
extra_option = click.option(
    "--extra", metavar="JSON", callback=_object, help="Data about the change, a JSON object."
)
limit_option = click.option(
    "--limit",
    default=100,
    show_default=True,
    type=whole_number(1, 10**6),
    metavar="N",
    help="Maximum number to show.",
)
key_argument = click.argument("key", callback=_key)
value_argument = click.argument("value", callback=_value)
prefix_option = click.option(
    "--prefix", default="", callback=_prefix, help="Only keys with this prefix."
)
retention_option = click.option(
    "--retention",
    metavar="DURATION",
    callback=_retention,
    help="When a task's entry expires: 30s, 5m, 1h or 7d from now, or never. By default after "
    "the configured retention.",
)
time_option = click.option(
    "--at",
    metavar="TIME",
    callback=_time,
    help="Restore the value at this time: 2026-01-31T12:00:00Z.",
)
