"""OpenAPI descriptions of the routes for workers, since FastAPI sees only a request parameter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, TypeAlias, Union

import msgspec
from fastapi.security import HTTPBearer

from holdfast.access.identity import Wanted
from holdfast.commands import CleanUpBackend
from holdfast.model.value import MAX_KEY_LENGTH
from holdfast.portable.identifier import MAX_ASSET_LENGTH
from holdfast.server.http.lean_routes import STATE
from holdfast.server.public.error_docs import BODY, problems
from holdfast.wire.codec import command_types

Description: TypeAlias = dict[str, Any]

bearer = HTTPBearer(
    bearerFormat="JWT",
    scheme_name="worker_token",
    description="The token of a task, a watcher, a job or a worker: `holdfast auth task-token` "
    "and `holdfast auth worker-token` print one. A response may contain a new "
    "token in the header `Refreshed-API-Token`, to use from then on.",
    auto_error=False,
)

_RENEWED: Description = {
    "Refreshed-API-Token": {
        "description": "A new token to use from then on. It is sent once half of the lifetime "
        "of the request's token is over.",
        "schema": {"type": "string"},
    }
}
_SCHEMAS = "#/components/schemas/"
_PREFIX = "Wire"


def _parameter(name: str, location: str, schema: Description, description: str) -> Description:
    return {
        "name": name,
        "in": location,
        "required": location != "header",
        "schema": schema,
        "description": description,
    }


def _object(properties: Description, required: str = "value") -> Description:
    return {
        "type": "object",
        "properties": properties,
        "required": [required],
        "additionalProperties": False,
    }


_key: Description = {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH}
_asset: Description = {"type": "string", "minLength": 1, "maxLength": MAX_ASSET_LENGTH}
_value: Description = {"description": "Any JSON value except null."}

TI_ID = _parameter(
    "ti_id",
    "path",
    {"type": "string", "format": "uuid"},
    "The task instance's id, which must be that of the token.",
)
KEY_IN_PATH = _parameter("key", "path", _key, "The key, percent-encoded.")
KEY_IN_QUERY = _parameter("key", "query", _key, "The key.")
NAME = _parameter("name", "query", _asset, "The asset's name.")
URI = _parameter("uri", "query", _asset, "The asset's URI.")
ALL_MAP_INDICES = _parameter(
    "all_map_indices",
    "query",
    {"type": "boolean", "default": False},
    "Clear every map index of the task in this run.",
) | {"required": False}
REQUEST = _parameter(
    "Idempotency-Key",
    "header",
    {"type": "string", "pattern": "^[A-Za-z0-9_-]{1,64}:[1-9][0-9]{0,17}$"},
    "`CLIENT:NUMBER`. A write that is sent again under the same key is executed once, and gets "
    "the same response. A client sends one request at a time, and numbers its requests from 1.",
)
VALUE = _object({"value": _value})
TASK_VALUE = _object(
    {
        "value": _value,
        "expires_at": {
            "type": ["string", "null"],
            "format": "date-time",
            "description": "When it expires, with a time zone. null or omitted: never.",
        },
    }
)


def operation(
    method: str,
    endpoint: Callable[..., Any],
    path: str,
    parameters: Sequence[Description],
    body: Description | None,
) -> Description:
    """Return FastAPI's options for a route of the two stores."""
    name = endpoint.__name__
    by = "_by_name" if "by-name" in path else "_by_uri" if "by-uri" in path else ""
    responses = problems(404, 409, 501, 502, *(BODY if body else ()))
    if method == "GET":
        responses[200] = {"content": _json(VALUE), "description": "The value."}
    else:
        responses[204] = {"description": "Done."}
    described: Description = {
        "name": f"{name}{by}",
        "operation_id": f"{name}{by}",
        "description": f"{endpoint.__doc__} Also available at `{STATE}…`.",
        "status_code": 200 if method == "GET" else 204,
        "responses": _renewing(responses),
        "openapi_extra": {"parameters": [*parameters, *(() if method == "GET" else (REQUEST,))]},
    }
    if body is not None:
        described["openapi_extra"]["requestBody"] = {"required": True, "content": _json(body)}
    return described


def tokens() -> Description:
    """Return FastAPI's options for the route for tokens."""
    body = _json({"$ref": f"{_SCHEMAS}{_PREFIX}Bearer"})
    answer = _json(_object({"token": {"type": "string"}}, "token"))
    return {
        "operation_id": "post_token",
        "responses": _renewing(
            problems(404, 409, 502, *BODY) | {200: {"content": answer, "description": "The token."}}
        ),
        "openapi_extra": {"requestBody": {"required": True, "content": body}},
    }


def supported_commands() -> Description:
    """Return FastAPI's options for the route that lists the commands."""
    names = _json({"type": "array", "items": {"type": "string"}})
    return {
        "operation_id": "list_commands",
        "responses": {
            200: {"content": names, "description": "The names of the commands, in order."}
        },
    }


def commands() -> Description:
    """Return FastAPI's options for the route for commands."""
    body = _json({"$ref": f"{_SCHEMAS}{_PREFIX}Command"})
    return {
        "operation_id": "post_command",
        "responses": _renewing(
            problems(404, 409, 501, 502, *BODY)
            | {200: {"content": _json({}), "description": "The command's result."}}
        ),
        "openapi_extra": {
            "parameters": [REQUEST],
            "requestBody": {"required": True, "content": body},
        },
    }


@cache
def command_schemas() -> Description:
    """Return the schemas of the commands, and of everything that they consist of; without the
    command that only the store of a custom backend takes."""
    described = tuple(kind for kind in command_types() if kind is not CleanUpBackend)
    every: Any = Union[described]  # noqa: UP007  (made from a list)
    [command, wanted], parts = msgspec.json.schema_components(
        [every, Wanted], ref_template=f"{_SCHEMAS}{_PREFIX}{{name}}"
    )
    schemas = _understood(parts | {"Command": command, "Bearer": wanted})
    return {f"{_PREFIX}{name}": schema for name, schema in schemas.items()}


def _understood(schema: Any) -> Any:
    """Return the schema without `"items": false`, which client generators do not know; the number
    of items says the same."""
    if isinstance(schema, list):
        return [_understood(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _understood(part)
        for name, part in schema.items()
        if not (name == "items" and part is False)
    }


def _renewing(responses: dict[int | str, Description]) -> dict[int | str, Description]:
    """Describe the header of a new token on responses for which the store was asked, and the bearer
    was found good."""
    for status in responses.keys() & {200, 204, 404, 409}:
        responses[status]["headers"] = _RENEWED
    return responses


def _json(schema: Description) -> Description:
    return {"application/json": {"schema": schema}}
