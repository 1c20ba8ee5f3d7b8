"""Statements as the driver takes them: text that is compiled once, and parameters."""

from __future__ import annotations

from collections import defaultdict
from functools import cached_property
from typing import Any, NamedTuple, TypeAlias
from weakref import WeakKeyDictionary

import sqlalchemy as sa

from holdfast.stores.sql.operations.steps import Query

Known: TypeAlias = tuple[str, dict[str, Any], bool]

_KNOWN: defaultdict[Any, WeakKeyDictionary[Any, Known]] = defaultdict(WeakKeyDictionary)


class Prepared(NamedTuple):
    """A query, ready for the driver."""

    text: str
    params: Any
    """A string if the statement is a COPY, which reads it."""
    many: bool
    """Whether `params` is a list, and the statement is to be executed once for each."""
    returns_rows: bool


class CompiledStatements:
    """SQL text of each statement for one database, compiled on first use.

    Stores on databases of one kind share the texts, since compiling takes longer than most
    commands. A text is dropped with its statement.
    """

    def __init__(self, dialect: Any) -> None:
        self._dialect = dialect

    @cached_property
    def _known(self) -> WeakKeyDictionary[Any, Known]:
        dialect = self._dialect
        quote = dialect.identifier_preparer.initial_quote
        return _KNOWN[type(dialect), dialect.server_version_info, quote]

    def prepare(self, query: Query, now: int | None) -> Prepared:
        statement, params = query
        if isinstance(params, str):
            return Prepared(statement, params, False, False)
        known = self._known.get(statement)
        if known is None:
            known = self._known[statement] = self._compile(statement)
        text, constants, returns_rows = known
        if isinstance(params, dict):
            return Prepared(text, {**constants, **params, "now": now}, False, returns_rows)
        if len(params) == 1:
            return Prepared(text, {**constants, **params[0], "now": now}, False, returns_rows)
        many = [{**constants, **one, "now": now} for one in params]
        return Prepared(text, many, True, returns_rows)

    def _compile(self, statement: Any) -> Known:
        # No caller uses the ids that an INSERT generates, so it need not return them.
        plain = statement.inline() if isinstance(statement, sa.Insert) else statement
        compiled = plain.compile(dialect=self._dialect)
        constants = {k: v for k, v in compiled.params.items() if v is not None}
        returns_rows = isinstance(plain, sa.Select) or bool(plain.returning_column_descriptions)
        return str(compiled), constants, returns_rows
