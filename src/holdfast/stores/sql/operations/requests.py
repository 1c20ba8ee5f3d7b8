"""Idempotent requests: executed once, with the same answer each time they are sent.

The latest request of each client is stored with its answer, in the transaction of its command.
"""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast import commands as c
from holdfast.commands import Guarded, Once, RequestId
from holdfast.errors import HoldfastError
from holdfast.stores import refusals
from holdfast.stores.sql import rows
from holdfast.stores.sql.operations import entries
from holdfast.stores.sql.operations.steps import BEGIN, ROLLBACK, Context, Lookup, Steps
from holdfast.stores.sql.statements import requests as q
from holdfast.wire.codec import JSON


def once(
    operation_for: Lookup, context: Context, command: Once, revocable: bool = True
) -> Steps[Any]:
    """Execute the command of a request once, and return the same answer each time.

    Most requests are sent once, so the command is executed first, and rolled back if it had been
    executed before. A command that is not `revocable` waits until the request is known to be new.
    """
    inner = command.inner
    operation = operation_for(inner)
    request = _request(command)
    if operation is entries.set_:
        version = yield from _set_at_once(context, request, inner)
        if version is not None:
            return version
        # Refused, or sent before; the long way finds out.
    yield BEGIN
    try:
        if not revocable:
            yield from _keep(command.request, request | _reply(None))
        answer = yield from operation(context, inner)
        if revocable:
            yield from _keep(command.request, request | _reply(answer))
        else:
            yield q.set_answer(), request | _reply(answer)
    except HoldfastError:
        # The conflict may be only with the first sending of the same request.
        yield ROLLBACK
        latest = yield q.latest(), request
        if not latest or latest[0][0] != command.request.number:
            raise
        _, digest, kept = latest[0]
        if digest != request["command"]:
            raise refusals.reused_number(command.request) from None
        asked = inner.inner if isinstance(inner, Guarded) else inner
        return JSON.decode_answer(asked, kept.encode())
    return answer


_encode = msgspec.json.Encoder(order="deterministic").encode


def _request(command: Once) -> dict[str, Any]:
    return {
        "who": command.request.client,
        "count": command.request.number,
        "command": rows.digest(_encode(command.inner).decode()),
    }


def _reply(answer: Any) -> dict[str, Any]:
    return {"reply": JSON.encode(answer).decode()}


def _set_at_once(context: Context, request: dict[str, Any], command: Any) -> Steps[int | None]:
    shortcut = context.dialect.set_in_one_statement(once=True)
    params = entries.plain(command)
    if shortcut is None or params is None:
        return None
    written = yield shortcut, params | request
    return written[0][0] if written else None


def _keep(request: RequestId, row: dict[str, Any]) -> Steps[None]:
    """Record the request as its client's latest. Raise StaleRequest if it, or a later one, already
    is. A concurrent sending of the same request waits here for the other's commit."""
    if (yield q.replace_earlier(), row):
        return
    latest = yield q.latest(), row
    if latest:
        raise refusals.stale_request(request, latest[0][0])
    yield q.add_first(), row


def forget_requests(context: Context, command: c.ForgetRequests) -> Steps[int]:
    gone = yield q.forget(), {"cutoff": rows.micros(command.cutoff)}
    return gone  # type: ignore[no-any-return]
