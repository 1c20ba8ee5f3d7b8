"""Routes for workers: the wire protocol of Airflow's task SDK for the two stores, and a route for
every command that a store takes."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import blake2b
from typing import Any, TypeAlias, cast
from urllib.parse import parse_qsl
from uuid import UUID

import msgspec
from fastapi import APIRouter, Request, Security
from starlette.responses import Response

from holdfast import commands as c
from holdfast.access.identity import JobIdentity, TaskIdentity, Wanted, WatcherIdentity
from holdfast.access.issuing import issuing
from holdfast.actions.log_retention import delete_logs
from holdfast.commands import RequestId
from holdfast.errors import Forbidden, InvalidInput, NotFound
from holdfast.model.entry import TaskWriter, WatcherWriter
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.value import as_reference, encode, fits, reference_in, shown_json, size_warning
from holdfast.server.execution import openapi as d
from holdfast.server.execution.content import decode_command, utc
from holdfast.server.http.error_responses import MEDIA_TYPE
from holdfast.server.http.lean_routes import BODY, Endpoint
from holdfast.server.http.limits import read_aside
from holdfast.server.http.request import (
    VERIFIED,
    execute_counted,
    identity_of,
    perform,
    settings_of,
    store_of,
    tokens_of,
)
from holdfast.server.http.strictness import check_content_type, check_query, decoded
from holdfast.server.public.error_docs import problems
from holdfast.server.storage_threads import in_log_thread
from holdfast.server.tokens import Verified
from holdfast.wire.codec import JSON, command_types

AIRFLOWS = "__airflow_state_ref__"
"""The field by which Airflow's workers mark a reference. Outside of their wire it means nothing."""

Registered: TypeAlias = Callable[[Endpoint], Endpoint]
Change: TypeAlias = Callable[[TaskWriter | WatcherWriter], c.AssetWrite]

log = logging.getLogger("holdfast.server")

router = APIRouter(
    prefix="/execution",
    tags=["Execution"],
    dependencies=[Security(d.bearer)],
    responses=problems(401, 403, 422, 429, 503),
)


def _route(
    method: str, path: str, *parameters: d.Description, body: d.Description | None = None
) -> Registered:
    def add(endpoint: Endpoint) -> Endpoint:
        described = d.operation(method, endpoint, path, parameters, body)
        router.add_api_route(f"/store{path}", endpoint, methods=[method], **described)
        return endpoint

    return add


def _asset_route(
    method: str, path: str, *parameters: d.Description, body: d.Description | None = None
) -> Registered:
    """Register a route by the asset's name and one by its URI."""

    def add(endpoint: Endpoint) -> Endpoint:
        _route(method, f"/asset/by-name/{path}", d.NAME, *parameters, body=body)(endpoint)
        _route(method, f"/asset/by-uri/{path}", d.URI, *parameters, body=body)(endpoint)
        return endpoint

    return add


@router.get("/commands", **d.supported_commands())
async def list_commands(request: Request) -> Response:
    """List the commands that the server's store supports."""
    _query(request)
    store = store_of(request)
    names = sorted(kind.__name__ for kind in command_types() if store.supports(kind))
    return Response(JSON.encode(names), media_type=MEDIA_TYPE)


@router.post("/commands", **d.commands())
async def post_command(request: Request) -> Response:
    """Execute a command that the token allows, and return its result."""
    _query(request)
    limit = settings_of(request).state_store.max_value_storage_bytes
    body = _json(request)
    command = await read_aside(body, decode_command, body, identity_of(request), limit)
    request_id = _request_id(request)
    answer = await perform(request, command, None if command.reads else request_id)
    if isinstance(command, c.DeleteRun):  # whose sender cannot reach the logs
        run = command.dag_id, command.run_id
        try:  # a request that is sent again must not take the logs of a new run of the same id
            await perform(request, c.GetRun(*run))
        except NotFound:
            await in_log_thread(delete_logs, settings_of(request), *run)
    return Response(JSON.encode(answer), media_type=MEDIA_TYPE)


@router.post("/tokens", **d.tokens())
async def post_token(request: Request) -> Response:
    """Issue a token for a live attempt, for a job whose intent is current, or for one store."""
    _query(request)
    body = _json(request)
    wanted = await read_aside(
        body, _decoded, body, _wanted, "name a task's attempt, a job or a store"
    )
    bearer, standing = issuing(identity_of(request), wanted)
    await execute_counted(request, standing, "IssueToken")
    token = tokens_of(request).give(bearer, request.scope[VERIFIED])
    return Response(JSON.encode({"token": token}), media_type=MEDIA_TYPE)


@_route("GET", "/ti/{ti_id}/{key:path}", d.TI_ID, d.KEY_IN_PATH)
async def get_task_entry(request: Request) -> Response:
    """Read a key of the task store."""
    scope, key = _task_entry(request)
    return _value(await perform(request, c.Get(scope, key)), scope, key)


@_route("PUT", "/ti/{ti_id}/{key:path}", d.TI_ID, d.KEY_IN_PATH, body=d.TASK_VALUE)
async def put_task_entry(request: Request) -> Response:
    """Write a key of the task store."""
    scope, key = _task_entry(request)
    body, text = await _written(request, _task_value, scope, key)
    expires_at = body.expires_at and utc(body.expires_at, "expires_at")
    write = c.Set(scope, key, text, _task(request).writer, expires_at)
    await perform(request, write, _request_id(request))
    return Response(status_code=204)


@_route("DELETE", "/ti/{ti_id}/{key:path}", d.TI_ID, d.KEY_IN_PATH)
async def delete_task_entry(request: Request) -> Response:
    """Remove a key of the task store."""
    scope, key = _task_entry(request)
    await perform(request, c.Delete(scope, key, _task(request).writer), _request_id(request))
    return Response(status_code=204)


@_route("DELETE", "/ti/{ti_id}", d.TI_ID, d.ALL_MAP_INDICES)
async def clear_task_store(request: Request) -> Response:
    """Remove every key of the task store."""
    query = _query(request, optional=("all_map_indices",))
    every = _flag("all_map_indices", query.get("all_map_indices", "false"))
    clear = c.Clear(_own_scope(request), _task(request).writer, every)
    await perform(request, clear, _request_id(request))
    return Response(status_code=204)


@_asset_route("GET", "value", d.KEY_IN_QUERY)
async def get_asset_entry(request: Request) -> Response:
    """Read a key of an asset's store."""
    scope, key = _asset_entry(request)
    return _value(await perform(request, c.Get(scope, key)), scope, key)


@_asset_route("PUT", "value", d.KEY_IN_QUERY, body=d.VALUE)
async def put_asset_entry(request: Request) -> Response:
    """Write a key of an asset's store."""
    scope, key = _asset_entry(request)
    _, text = await _written(request, _asset_value, scope, key)
    return await _change(request, lambda writer: c.Set(scope, key, text, writer))


@_asset_route("DELETE", "value", d.KEY_IN_QUERY)
async def delete_asset_entry(request: Request) -> Response:
    """Remove a key of an asset's store."""
    scope, key = _asset_entry(request)
    return await _change(request, lambda writer: c.Delete(scope, key, writer))


@_asset_route("DELETE", "clear")
async def clear_asset_store(request: Request) -> Response:
    """Remove every key of an asset's store."""
    scope, _ = _asset(request)
    return await _change(request, lambda writer: c.Clear(scope, writer))


class TaskValue(msgspec.Struct, forbid_unknown_fields=True):
    """The body that writes a key of a task store."""

    value: Any
    expires_at: datetime | None = None


class AssetValue(msgspec.Struct, forbid_unknown_fields=True):
    """The body that writes a key of an asset's store."""

    value: Any


_task_value = msgspec.json.Decoder(TaskValue)
_asset_value = msgspec.json.Decoder(AssetValue)
_wanted: msgspec.json.Decoder[Wanted] = msgspec.json.Decoder(Wanted)


def _task(request: Request) -> TaskIdentity | JobIdentity:
    identity = identity_of(request)
    if isinstance(identity, TaskIdentity | JobIdentity):
        return identity
    raise Forbidden(
        f"this is for tasks and their jobs, and the token is that of {identity}",
        hint="`holdfast auth task-token` prints a token for a task; people use /api/v2",
    )


def _own_scope(request: Request) -> TaskScope:
    """Return the task instance of the path, which must be the token's own."""
    scope = _task(request).scope
    given = request.path_params["ti_id"]
    if given != scope.ti_text:
        _check_own(decoded(given, "id"), scope)
    return scope


def _check_own(given: str, scope: TaskScope) -> None:
    try:
        same = UUID(given) == scope.ti_id
    except ValueError:
        raise InvalidInput(f"{given[:80]!r} is not the id of a task instance") from None
    if not same:
        raise Forbidden(
            f"the token is that of {scope}, whose id is {scope.ti_id}, not {given}",
            hint="a task can use only its own store",
        )


def _task_entry(request: Request) -> tuple[TaskScope, str]:
    _query(request)
    return _own_scope(request), decoded(request.path_params["key"], "key")


def _asset_entry(request: Request) -> tuple[AssetScope, str]:
    scope, query = _asset(request, "key")
    return scope, query["key"]


def _asset(request: Request, *others: str) -> tuple[AssetScope, dict[str, str]]:
    """Return the asset that the query names, and the whole query, which also has these names."""
    by = "name" if "/by-name/" in request.scope["path"] else "uri"
    query = _query(request, by, *others)
    scope = AssetScope(name=query[by]) if by == "name" else AssetScope(uri=query[by])
    return scope, query


def _flag(name: str, text: str) -> bool:
    if text.lower() in ("true", "1"):
        return True
    if text.lower() in ("false", "0"):
        return False
    raise InvalidInput(f"{name} is {text[:40]!r}", hint="use true or false")


def _query(request: Request, *names: str, optional: Sequence[str] = ()) -> dict[str, str]:
    """Return the query, which must have these names, may have the optional ones, and no others."""
    raw = request.scope["query_string"]
    if not raw and not names:
        return {}
    try:
        pairs = parse_qsl(raw.decode(), keep_blank_values=True, errors="strict", max_num_fields=20)
    except ValueError:
        raise InvalidInput("the query is not UTF-8, or has too many parameters") from None
    query = dict(pairs)
    if len(query) < len(pairs):
        raise InvalidInput("the query has a parameter twice", hint="give each parameter once")
    check_query(query, (*names, *optional))
    for name in names:
        if name not in query:
            raise InvalidInput(f"the query lacks `{name}`", hint=f"add {name}=…, percent-encoded")
    return query


def _json(request: Request) -> bytes:
    check_content_type(request)
    return cast(bytes, request.scope[BODY])


def _decoded(
    body: bytes, decoder: msgspec.json.Decoder[Any], hint: str = 'send {"value": …}'
) -> Any:
    try:
        return decoder.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidInput(f"the body is not valid: {error}", hint=hint) from None


async def _written(
    request: Request, decoder: msgspec.json.Decoder[Any], scope: StoreScope, key: str
) -> tuple[Any, str]:
    """Return the body, and its value as it is stored. A large value is accepted: no task is
    interrupted for its size."""
    sent = _json(request)
    body, text = await read_aside(sent, _with_text, sent, decoder)
    limit = settings_of(request).state_store.max_value_storage_bytes
    if not fits(text, limit):
        log.warning("%s", size_warning(text, limit, f"`{key}` of {scope}"))
    return body, text


def _with_text(sent: bytes, decoder: msgspec.json.Decoder[Any]) -> tuple[Any, str]:
    body = _decoded(sent, decoder)
    value = body.value
    text = encode(value)
    if isinstance(value, dict) and len(value) == 1 and isinstance(value.get(AIRFLOWS), str):
        text = as_reference(value[AIRFLOWS], in_place=True)
    return body, text


def _value(text: str | None, scope: StoreScope, key: str) -> Response:
    if text is None:
        raise NotFound(f"{scope} has no `{key}`")
    reference = reference_in(text)
    if reference is not None:
        text = encode({AIRFLOWS: reference})
    plain = shown_json(text, f"`{key}` of {scope}")
    return Response(f'{{"value":{plain}}}', media_type=MEDIA_TYPE)


async def _change(request: Request, change: Change) -> Response:
    await perform(request, _signed(request, change), _request_id(request))
    return Response(status_code=204)


def _signed(request: Request, change: Change) -> c.Command[Any]:
    """Return the write to an asset, by the identity of the token."""
    identity = identity_of(request)
    if isinstance(identity, WatcherIdentity):
        return c.Emit(identity.watch, (change(WatcherWriter()),))
    return change(_task(request).writer)


_REQUEST = re.compile(r"([A-Za-z0-9_-]{1,64}):([0-9]{1,19})", re.ASCII)


def _request_id(request: Request) -> RequestId | None:
    """Return the id of a request of this bearer's client: nobody can get the answers of another
    bearer by using the same client name."""
    given = request.headers.get("idempotency-key")
    if given is None:
        return None
    match = _REQUEST.fullmatch(given)
    if match is None or not 0 < int(match[2]) < 2**63:
        raise InvalidInput(
            "Idempotency-Key is not CLIENT:NUMBER",
            hint="CLIENT has 1 to 64 of A-Z, a-z, 0-9, _ and -, and NUMBER counts from 1",
        )
    verified: Verified = request.scope[VERIFIED]
    client = blake2b(verified.bearer + match[1].encode(), digest_size=24).hexdigest()
    return RequestId(client, int(match[2]))
