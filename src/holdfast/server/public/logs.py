"""Route for the logs of attempts."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query
from fastapi.responses import PlainTextResponse, Response
from pydantic.json_schema import SkipJsonSchema

from holdfast.actions.logs import LoggedAttempt, find_attempt, find_log_file, open_log
from holdfast.actions.tasks import find
from holdfast.errors import InvalidInput
from holdfast.logs.log import BLOCK, LONGEST_TAIL, Log
from holdfast.logs.served import COMPLETE, MOST_LINES, NEXT, OFFSET
from holdfast.server.http.limits import ConcurrencyLimit
from holdfast.server.public.caller import CallerDep
from holdfast.server.public.error_docs import problems
from holdfast.server.public.parameter import TaskInPath
from holdfast.server.public.route import public_router
from holdfast.server.public.task_instances import PATH
from holdfast.server.storage_threads import in_log_file_thread, in_log_thread
from holdfast.settings import Settings

router = public_router("Task instances", 404)

_limit = ConcurrencyLimit(2, "logs are read")

TryNumber = Annotated[int, Path(ge=1, le=2**31 - 1, description="The number of the attempt.")]


def _header(description: str, kind: str) -> dict[str, Any]:
    return {"description": description, "schema": {"type": kind}}


_SUCCESS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": f"Up to {BLOCK:,} bytes of the log. A line in brackets says how much was "
        "left out, where the log was too large.",
        "content": {"text/plain": {"schema": {"type": "string"}}},
        "headers": {
            OFFSET: _header("The offset at which the text begins.", "integer"),
            NEXT: _header("The offset to read from next.", "integer"),
            COMPLETE: _header(
                "`true` if nothing will be added to the log: its attempt has ended.", "boolean"
            ),
        },
    }
}


@router.get(
    PATH + "/{task_id}/logs/{try_number}",
    response_class=Response,  # of which the description derives no content type for errors
    responses=_SUCCESS | problems(502),
)
async def get_log(
    caller: CallerDep,
    scope: TaskInPath,
    try_number: TryNumber,
    offset: Annotated[
        int | SkipJsonSchema[None],
        Query(ge=0, le=2**63 - 1, description="Offset in bytes to read from; by default 0."),
    ] = None,
    tail: Annotated[
        int | SkipJsonSchema[None],
        Query(
            ge=0,
            le=MOST_LINES,
            description="Read from the beginning of the last lines instead, within the last "
            f"{LONGEST_TAIL:,} bytes of the log.",
        ),
    ] = None,
) -> PlainTextResponse:
    """Read the log of an attempt as text, a part at a time: from the server's machine, or from
    `[logs] url`. To follow it, repeat the request with the next offset until the text is empty and
    the log is complete."""
    if offset is not None and tail is not None:
        raise InvalidInput("both `offset` and `tail` are given", hint="give one of them")
    instance = find(scope.dag_id, scope.run_id, scope.task_id, scope.map_index)
    attempt = await caller.follow(find_attempt(instance, try_number))
    with _limit.counting(caller.identity):
        part = caller.settings, attempt, offset or 0, tail
        found = await in_log_file_thread(_read_file, *part)
        if found is not None:
            return found
        return await in_log_thread(_read_any, *part)


def _read_file(
    settings: Settings, attempt: LoggedAttempt, offset: int, tail: int | None
) -> PlainTextResponse | None:
    log = find_log_file(settings, attempt)
    return None if log is None else _read(log, attempt, offset, tail)


def _read_any(
    settings: Settings, attempt: LoggedAttempt, offset: int, tail: int | None
) -> PlainTextResponse:
    return _read(open_log(settings, attempt), attempt, offset, tail)


def _read(log: Log, attempt: LoggedAttempt, offset: int, tail: int | None) -> PlainTextResponse:
    start = offset if tail is None else log.tail(tail)
    part = log.read(start)
    headers = {
        OFFSET: str(start),
        NEXT: str(part.next),
        COMPLETE: "true" if attempt.ended and log.is_complete else "false",
        "X-Content-Type-Options": "nosniff",
    }
    return PlainTextResponse(part.text, headers=headers)
