"""Validation of commands that come over HTTP or from the process of a task. Our own programs check
values where they create them; these commands may have been created by anything."""

from __future__ import annotations

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from holdfast import commands as c
from holdfast.access.identity import Identity
from holdfast.access.permissions import signed
from holdfast.commands import AddToLoad
from holdfast.commands.paging import bounded, check_page
from holdfast.errors import InvalidInput, InvalidType
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import TaskScope
from holdfast.model.value import fits, parse, size_warning, too_large
from holdfast.wire.codec import JSON

LONGEST = timedelta(days=36_500)
_SMALL = frozenset({"attempt", "exit_status", "map_index", "number", "pid", "signal"})
_COUNTS = frozenset({"limit", "offset"})
_HARMLESS = frozenset({str, bool, float, type(None), TaskScope})

log = logging.getLogger("holdfast.server")


def decode_command(body: bytes, identity: Identity, max_value_bytes: int) -> c.Command[Any]:
    """Return the caller's command in a body. Raise InvalidInput where it is not one, or holds
    values that cannot be stored."""
    command = signed(identity, JSON.decode_command(body))
    return checked(command, max_value_bytes, rb"\u0000" in body)


def checked(command: c.Command[Any], max_value_bytes: int, may_hold_nul: bool) -> c.Command[Any]:
    """Return the command as it is to be executed. Raise InvalidInput where it holds values that
    cannot be stored."""
    texts = command.texts()
    if isinstance(command, AddToLoad):
        # The store checks its values, since it stores them in another form.
        command = msgspec.structs.replace(command, max_value_bytes=max_value_bytes)
        texts = iter(())
    _check(command, "", may_hold_nul)
    check_page(command)
    command = bounded(command)
    for scope, key, text in texts:
        where = f"`{key}` of {scope}"
        try:
            parse(text)
        except (InvalidInput, InvalidType) as error:
            raise type(error)(f"{where}: {error.message}", hint=error.hint) from None
        if not fits(text, max_value_bytes):
            if isinstance(command.writer, ApiWriter):
                raise too_large(text, max_value_bytes, where)
            log.warning("%s", size_warning(text, max_value_bytes, where))
    return command


def utc(time: datetime, what: str) -> datetime:
    """Return the same time in UTC. Raise InvalidInput without a time zone, or out of range."""
    if time.tzinfo is None:
        raise InvalidInput(f"{what} has no time zone", hint="for UTC, append Z")
    try:
        return time.astimezone(UTC)
    except OverflowError:
        raise InvalidInput(f"{what} is out of range: {time}") from None


def _check(value: Any, name: str, may_hold_nul: bool) -> None:
    """Raise InvalidInput for numbers and times that the types allow and databases reject, and for
    U+0000, which not every database accepts."""
    if type(value) in _HARMLESS:
        if may_hold_nul and type(value) is str and "\0" in value:
            raise InvalidInput(f"{name} has the control character U+0000")
    elif isinstance(value, msgspec.Struct):
        for field in value.__struct_fields__:
            _check(getattr(value, field), field, may_hold_nul)
    elif isinstance(value, tuple | list):
        for item in value:
            _check(item, name, may_hold_nul)
    elif isinstance(value, int):
        limit = 2**31 if name in _SMALL else 2**63
        if not (0 if name in _COUNTS else -limit) <= value < limit:
            raise InvalidInput(f"{name} is {value}, which is out of range")
    elif isinstance(value, datetime):
        utc(value, name)
    elif isinstance(value, timedelta) and abs(value) > LONGEST:
        raise InvalidInput(f"{name} is {value}, which is out of range")
