"""The driver alone: what the store sends for a command, recorded once, then only sent again."""

from __future__ import annotations

import time
from typing import Any, TypeAlias

from bench.store.databases import connect
from holdfast.command import Command
from holdfast.stores.sql.compiled import CompiledStatements
from holdfast.stores.sql.dialects import SQLite, make_engine, parse_url
from holdfast.stores.sql.operations import BEGIN, OPERATIONS, Context

Sent: TypeAlias = tuple[str, Any, bool]
"""A statement's text, its parameters, and whether those are many sets of them."""


class Driver:
    """One connection that commits each statement by itself and prepares what it can."""

    def __init__(self, url: str) -> None:
        parsed, self._dialect = parse_url(url)
        self._compiled = CompiledStatements(make_engine(parsed, self._dialect).dialect)
        self._connection = connect(url)
        self._cursor = self._connection.cursor()

    def record(self, command: Command[Any]) -> list[Sent]:
        """Carry the command out as the store would, and keep what was sent."""
        steps = OPERATIONS[type(command)](Context(self._dialect, history_limit=100), command)
        now = time.time_ns() // 1000 if isinstance(self._dialect, SQLite) else None
        tape: list[Sent] = []
        answer = None
        try:
            while True:
                query = steps.send(answer)
                if query is BEGIN:
                    tape.append((self._dialect.begin, {}, False))
                else:
                    tape.append(self._compiled.prepare(query, now))
                answer = self.send(tape[-1])
        except StopIteration:
            if tape[0][0] == self._dialect.begin:
                tape.append(("COMMIT", {}, False))
                self.send(tape[-1])
        return tape

    def replay(self, tape: list[Sent]) -> None:
        for sent in tape:
            self.send(sent)

    def send(self, sent: Sent) -> Any:
        text, params, many = sent
        cursor = self._cursor
        if many:
            cursor.executemany(text, params)
        else:
            cursor.execute(text, params)
        return cursor.fetchall() if cursor.description else cursor.rowcount
