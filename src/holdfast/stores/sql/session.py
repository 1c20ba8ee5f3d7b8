"""Operations inside a SQLAlchemy session that the caller holds and commits."""

from __future__ import annotations

import time
from typing import Any, TypeVar, cast

from sqlalchemy.orm import Session

from holdfast.commands import Command
from holdfast.flow import Call
from holdfast.stores.sql.compiled import CompiledStatements
from holdfast.stores.sql.dialects import parse_url
from holdfast.stores.sql.failures import is_driver_error, translate
from holdfast.stores.sql.operations import operation_for
from holdfast.stores.sql.operations.steps import BEGIN, SNAPSHOT, Context

A = TypeVar("A")


def execute_in(session: Session, command: Command[A], history_limit: int) -> A:
    """Execute the command in the session's transaction; it is durable once that commits."""
    connection = session.connection()
    url = connection.engine.url
    dialect = parse_url(url.render_as_string(hide_password=False))[1]
    # Driver SQL instead of SQLAlchemy statements, for which a parameter with a column's name would
    # be a value to write.
    kind: Any = type(connection.dialect)
    compiled = CompiledStatements(kind(paramstyle=dialect.paramstyle))
    now = time.time_ns() // 1000 if dialect.embedded else None
    steps = operation_for(command)(Context(dialect, history_limit), command)
    answer: Any = None
    try:
        while True:
            query = steps.send(answer)
            if query is BEGIN or query is SNAPSHOT:
                answer = None
                continue
            assert not isinstance(query, Call)  # only custom backends are called
            text, params, _, returns_rows = compiled.prepare(query, now)
            result = connection.exec_driver_sql(text, params)
            answer = result.all() if returns_rows else result.rowcount
    except StopIteration as end:
        return cast(A, end.value)
    except Exception as error:
        if is_driver_error(error):
            raise translate(error, url) from error
        raise
