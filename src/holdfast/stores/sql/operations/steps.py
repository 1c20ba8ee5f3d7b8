"""Steps of SQL operations, run sync or async.

An operation is a generator that yields queries and is sent their results: rows for a SELECT, a row
count otherwise. From `BEGIN` on it is one transaction, which the runner commits when the operation
ends and rolls back when it raises, or at `ROLLBACK`. From `SNAPSHOT` on, all queries read the same
state. In a transaction that has begun, as when one operation runs as part of another, both do
nothing. So an operation is written once, for the sync and the async entry point.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias, TypeVar

from holdfast import flow
from holdfast.commands import Command
from holdfast.flow import Call
from holdfast.stores.sql.dialects import Dialect

A = TypeVar("A")


Query: TypeAlias = tuple[Any, Any]
"""A statement and its parameters: a dict, or a list of dicts to execute it once for each. Or the
text of a COPY, and the text that it reads."""
Steps: TypeAlias = flow.Steps[Query | Call, A]

BEGIN: Query = ("BEGIN", None)
SNAPSHOT: Query = ("SNAPSHOT", None)
ROLLBACK: Query = ("ROLLBACK", None)
NO_LIMIT = 2**62


def window(limit: int | None, offset: int) -> dict[str, int]:
    """Return the parameters of a page."""
    return {"limit": NO_LIMIT if limit is None else limit, "offset": offset}


def each(statement: Any, params: Sequence[dict[str, Any]]) -> Steps[None]:
    """Execute a statement once for each of the parameters, of which there may be none."""
    if params:
        yield statement, params


class Context(NamedTuple):
    """Settings that an operation needs besides its command."""

    dialect: Dialect
    history_limit: int


Operation: TypeAlias = Callable[[Context, Any], Steps[Any]]
Lookup: TypeAlias = Callable[[Command[Any]], Operation]
"""Function that returns the operation of a command wrapped in another."""
