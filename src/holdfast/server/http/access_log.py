"""The access log: one line for each request, without tokens and queries."""

from __future__ import annotations

import logging

from starlette.types import Scope

from holdfast.monitoring.service_log import fields
from holdfast.server.http.error_responses import REQUEST_ID
from holdfast.server.http.request import COMMANDS, VERIFIED
from holdfast.server.tokens import Verified

log = logging.getLogger("holdfast.access")


def log_request(scope: Scope, status: int, seconds: float, size: int) -> None:
    """Log a request: its status, its duration, and its response's size."""
    if not log.isEnabledFor(logging.INFO):
        return
    verified: Verified | None = scope.get(VERIFIED)
    who = str(verified.identity) if verified else ""
    method, path = scope["method"], scope["raw_path"].decode("ascii")
    ms, request = round(seconds * 1000, 2), scope[REQUEST_ID]
    commands = scope.get(COMMANDS, [])
    facts = fields(
        method=method,
        path=path,
        status=status,
        ms=ms,
        who=who,
        commands=commands,
        bytes=size,
        request=request,
    )
    by = f" by {who}" if who else ""
    done = f" ({', '.join(commands)})" if commands else ""
    text = "%s %s %d, %s ms, %d bytes, request %s%s%s"
    log.info(text, method, path, status, ms, size, request, by, done, extra=facts)
