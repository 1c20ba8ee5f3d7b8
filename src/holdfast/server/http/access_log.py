"""The access log: one line of JSON for each request, without tokens and queries."""

from __future__ import annotations

import sys
from datetime import UTC, datetime

import msgspec
from starlette.types import Scope

from holdfast.server.http.error_responses import REQUEST_ID
from holdfast.server.http.request import COMMANDS, VERIFIED
from holdfast.server.tokens import Verified


def log_request(scope: Scope, status: int, seconds: float, size: int) -> None:
    """Write a line about a request to stderr: its status, its duration, and its response's size."""
    verified: Verified | None = scope.get(VERIFIED)
    line = {
        "time": datetime.now(UTC),
        "method": scope["method"],
        "path": scope["raw_path"].decode("ascii"),
        "status": status,
        "ms": round(seconds * 1000, 2),
        "who": str(verified.identity) if verified else "",
        "commands": scope.get(COMMANDS, []),
        "bytes": size,
        "request": scope[REQUEST_ID],
    }
    sys.stderr.write(_encode(line).decode() + "\n")
    sys.stderr.flush()


_encode = msgspec.json.Encoder().encode
