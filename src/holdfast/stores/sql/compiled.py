"""Statements as the driver takes them: text that is compiled once, and parameters."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from holdfast.stores.sql.operations.steps import Query


class CompiledStatements:
    """The SQL text of each statement for one database, compiled on first use."""

    def __init__(self, dialect: Any) -> None:
        self._dialect = dialect
        self._known: dict[Any, tuple[str, dict[str, Any]]] = {}

    def prepare(self, query: Query, now: int | None) -> tuple[str, Any, bool]:
        """Text and parameters, and whether they are many sets of parameters."""
        statement, params = query
        known = self._known.get(statement)
        if known is None:
            # Nobody asks for the ids that an INSERT gives out, so it need not return them.
            plain = statement.inline() if isinstance(statement, sa.Insert) else statement
            compiled = plain.compile(dialect=self._dialect)
            constants = {k: v for k, v in compiled.params.items() if v is not None}
            known = self._known[statement] = str(compiled), constants
        text, constants = known
        if isinstance(params, dict):
            return text, {**constants, **params, "now": now}, False
        if len(params) == 1:
            return text, {**constants, **params[0], "now": now}, False
        return text, [{**constants, **one, "now": now} for one in params], True
