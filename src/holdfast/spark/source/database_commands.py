"""Commands in the wire format to the database of a location, where Holdfast is installed."""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import msgspec

from holdfast import commands as c
from holdfast.commands import Command
from holdfast.connection import rules
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.portable.source.location import Location
from holdfast.settings import load
from holdfast.spark.source.database import open_location

_Loading: TypeAlias = c.StartLoad | c.AddToLoad | c.FinishLoad | c.DropLoad


class Stored:
    """A database, with the interface of `Served` for a server."""

    def __init__(self, location: Location) -> None:
        self._store = open_location(location)

    def ask(self, command: str, *, once: bool = False, **fields: Any) -> Any:
        """Execute a command and return the result. It executes once, by the database's
        transaction."""
        return self._store.execute(_command({"command": command, **fields}))

    def close(self) -> None:
        self._store.close()


def _command(fields: dict[str, Any]) -> Command[Any]:
    try:
        return cast(Command[Any], msgspec.convert(fields, type=_Loading))
    except msgspec.ValidationError as error:
        if isinstance(error.__cause__, HoldfastError):
            raise error.__cause__ from None
        raise InvalidInput(f"not a command: {error}") from None


def largest_value() -> int:
    """Return the maximum length of a value's JSON text; 0: any length."""
    return rules(load()).max_value_bytes
