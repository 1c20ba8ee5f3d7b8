"""Commands of the data source to a server: tables and bulk loads."""

from __future__ import annotations

from typing import Any

from holdfast.portable.client import ask
from holdfast.portable.source.location import Location
from holdfast.portable.transport import Transport

RETRY_WINDOW = 60.0
"""Seconds that a server may be unreachable before a read or write fails."""


class Served:
    """A client that sends JSON commands to the server of a location."""

    def __init__(self, location: Location, timeout: float = 30.0) -> None:
        self._transport = Transport(
            location.url, location.token, retry_window=RETRY_WINDOW, timeout=timeout
        )

    def ask(self, command: str, *, once: bool = False, **fields: Any) -> Any:
        """Send a command and return the result. Commands that write use `once`, to execute only
        once."""
        return ask(self._transport, command, fields, once=once)

    def close(self) -> None:
        self._transport.close()
