"""One line of JSON for each request. No token and no query is ever in it."""

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
    """What the store was asked."""
    bytes: int
    request: str


class AccessLog:
    """Writes lines to stderr as they come."""

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder().encode

    def write(self, scope: Scope, status: int, seconds: float, size: int, request_id: str) -> None:
        """What came of a request that took so long and was answered with so many bytes."""
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
