"""The server of a location, asked for tables and loads."""

from __future__ import annotations

from typing import Any

from holdfast.portable.client import ask
from holdfast.portable.source.location import Location
from holdfast.portable.transport import Transport

RETRY_WINDOW = 60.0
"""Seconds that a server may be away for before a read or write fails."""


class Served:
    """A server, asked in JSON. `command` is the command's name, `fields` are its own."""

    def __init__(self, location: Location, timeout: float = 30.0) -> None:
        self._transport = Transport(
            location.url, location.token, retry_window=RETRY_WINDOW, timeout=timeout
        )

    def ask(self, command: str, *, once: bool = False, **fields: Any) -> Any:
        """The answer. `once` is for commands that write: they are then carried out once."""
        return ask(self._transport, command, fields, once=once)

    def close(self) -> None:
        self._transport.close()
