"""Commands to the server of a location, in the words of the wire, with nothing but `transport`."""

from __future__ import annotations

import json
from typing import Any

from holdfast.errors import KINDS, HoldfastError, InvalidUrl, StoreUnavailable
from holdfast.portable.transport import Transport, Unreachable
from holdfast.spark.source.location import Location

COMMANDS = "/execution/commands"
HEADERS = {"Content-Type": "application/json"}
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
        body = json.dumps({"command": command, **fields}).encode()
        try:
            response = self._transport.request("POST", COMMANDS, body, HEADERS, once=once)
        except Unreachable as error:
            raise StoreUnavailable(
                str(error), hint="check the URL, and whether `holdfast server` runs there"
            ) from None
        try:
            answer = json.loads(response.body)
        except ValueError:
            raise InvalidUrl(
                f"{self._transport.url} answered as no Holdfast server does ({response.status})",
                hint="check the URL, and the proxy in front of the server if there is one",
            ) from None
        if response.status == 200:
            return answer
        refusal = answer["detail"]
        kind = KINDS.get(refusal["reason"], HoldfastError)
        raise kind(refusal["message"], hint=refusal.get("hint", ""))

    def close(self) -> None:
        self._transport.close()
