"""Base classes and field types of request and response bodies."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    WithJsonSchema,
)
from pydantic_core import PydanticCustomError

from holdfast.errors import InvalidInput
from holdfast.model.value import MAX_KEY_LENGTH
from holdfast.portable.identifier import MAX_ASSET_LENGTH, MAX_ID_LENGTH, check_text

EXAMPLE_TIME = "2026-01-31T12:00:00Z"

_TIME = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)


def _time(given: Any) -> datetime:
    if isinstance(given, str) and _TIME.fullmatch(given):
        try:
            return datetime.fromisoformat(given.upper()).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    raise PydanticCustomError(
        "time",
        "this is not a time with a time zone; write it as {example}",
        {"example": EXAMPLE_TIME},
    )


Time = Annotated[
    datetime,
    BeforeValidator(_time),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": [EXAMPLE_TIME]}),
]
"""A time in a request: RFC 3339, with a zone."""


def _plain(given: str) -> str:
    try:
        check_text("it", given)
    except InvalidInput as error:
        raise PydanticCustomError("text", "{why}", {"why": error.message}) from None
    return given


Id = Annotated[str, Field(min_length=1, max_length=MAX_ID_LENGTH), AfterValidator(_plain)]
AssetName = Annotated[str, Field(min_length=1, max_length=MAX_ASSET_LENGTH), AfterValidator(_plain)]
KeyPrefix = Annotated[str, Field(max_length=MAX_KEY_LENGTH), AfterValidator(_plain)]
WatermarkKey = Annotated[
    str, Field(min_length=1, max_length=MAX_KEY_LENGTH), AfterValidator(_plain)
]
AssetId = Annotated[int, Field(ge=1, le=2**63 - 1)]
Index = Annotated[int, Field(ge=-1, le=2**31 - 1)]
VersionNumber = Annotated[int, Field(ge=0, le=2**63 - 1)]


class Body(BaseModel):
    """A request body: unknown fields are rejected, and types are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Answer(BaseModel):
    """A response body: every field is always present."""

    model_config = ConfigDict(json_schema_serialization_defaults_required=True)


class LastUpdatedBy(Answer):
    """The last writer of an entry."""

    kind: Literal["task", "watcher", "api"]
    dag_id: str | None = Field(
        default=None,
        description="The DAG of the task; null, like the next three, if no task wrote it.",
    )
    run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None
    user: str | None = Field(
        default=None, description="The user who wrote it through the API, the CLI or a script."
    )


class Stored(Answer):
    """A value, or the reference to an offloaded one."""

    value: Any = Field(
        description="The JSON value; null if there is a reference instead. If the reference is "
        "null too, the stored text is not JSON, and reading the entry fails with "
        "an error."
    )
    reference: str | None = Field(
        description="The reference to the value, if a worker-side backend has offloaded it. "
        "Only workers can read the value."
    )
