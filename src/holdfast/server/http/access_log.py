"""The access log: one line of JSON for each request, without tokens and queries."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import msgspec
from starlette.types import Scope

from holdfast.server.http.request import COMMANDS, VERIFIED
from holdfast.server.tokens import Verified


class Line(msgspec.Struct):
    time: datetime
    method: str
    path: str
    status: int
    ms: float
    who: str
    commands: list[str]
    """The commands that were sent to the store."""
    bytes: int
    request: str


class AccessLog:
    """Writes lines to stderr, one for each request."""

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder().encode

    def write(self, scope: Scope, status: int, seconds: float, size: int, request_id: str) -> None:
        """Log the status of a request, its duration and the size of its response."""
        verified: Verified | None = scope.get(VERIFIED)
        line = Line(
            datetime.now(UTC),
            scope["method"],
            scope["raw_path"].decode("ascii"),
            status,
            round(seconds * 1000, 2),
            str(verified.identity) if verified else "",
            scope.get(COMMANDS, []),
            size,
            request_id,
        )
        sys.stderr.write(self._encode(line).decode() + "\n")
        sys.stderr.flush()
