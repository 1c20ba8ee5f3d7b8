"""The option `where`: an SQL predicate by which the store itself filters rows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from holdfast.errors import InvalidInput
from holdfast.portable.report_tables import COMPARISONS, MOST_TESTS, TIME, is_testable, kind_of

TOKEN = re.compile(r"\s*([A-Za-z_]\w*|-?\d+|'(?:[^']|'')*'|<=|>=|[=<>(),]|\S)")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
GRAMMAR = (
    "conditions joined by AND: column = 'text', <, <=, >, >=, column IN (1, 2), "
    "startswith(column, 'text'), column IS NULL, column IS NOT NULL"
)


def parse_where(table: str, where: str) -> tuple[dict[str, Any], ...]:
    """Return the tests of a predicate, in the form of a Scan; raise InvalidInput for invalid
    ones."""
    words = Words(table, where)
    tests = [words.condition()]
    while not words.at_end:
        words.expect("AND")
        tests.append(words.condition())
    if len(tests) > MOST_TESTS:
        raise InvalidInput(
            f"where has {len(tests)} conditions", hint=f"{MOST_TESTS} at most; use df.filter(…)"
        )
    return tuple(tests)


class Words:
    """Recursive-descent parser for a predicate."""

    def __init__(self, table: str, where: str) -> None:
        self._table = table
        self._where = where
        self._words: Iterator[str] = iter(TOKEN.findall(where))
        self._next = next(self._words, "")

    @property
    def at_end(self) -> bool:
        return not self._next

    def condition(self) -> dict[str, Any]:
        first = self.take()
        if first.upper() == "STARTSWITH":
            self.expect("(")
            column = self.take()
            self.expect(",")
            value = self.literal(column)
            self.expect(")")
            return self.test(column, "starts", [value])
        operator = self.take().upper()
        if operator == "IS":
            negated = self._next.upper() == "NOT"
            if negated:
                self.take()
            self.expect("NULL")
            return self.test(first, "not null" if negated else "null", [])
        if operator == "IN":
            return self.test(first, "in", self.values(first))
        if operator not in COMPARISONS:
            raise self.unreadable(operator)
        return self.test(first, operator, [self.literal(first)])

    def values(self, column: str) -> list[Any]:
        self.expect("(")
        values = [self.literal(column)]
        while self._next == ",":
            self.take()
            values.append(self.literal(column))
        self.expect(")")
        return values

    def literal(self, column: str) -> int | str:
        """Return a value for the column. Times are written as text, in UTC unless they have an
        offset."""
        word = self.take()
        if word.lstrip("-").isdecimal():
            return int(word)
        if len(word) < 2 or not word.startswith("'"):
            raise self.unreadable(word)
        text = word[1:-1].replace("''", "'")
        if kind_of(self._table, column) != TIME:
            return text
        try:
            time = datetime.fromisoformat(text)
        except ValueError:
            raise InvalidInput(
                f"where: {column} is compared with {text!r}, which is not a time",
                hint="write '2026-01-31', '2026-01-31 12:00:00' or '2026-01-31T12:00:00+01:00'",
            ) from None
        return ((time if time.tzinfo else time.replace(tzinfo=UTC)) - EPOCH) // timedelta(
            microseconds=1
        )

    def test(self, column: str, operator: str, values: list[Any]) -> dict[str, Any]:
        if not is_testable(self._table, column, operator, values):
            raise InvalidInput(
                f"where: the store cannot find rows of `{self._table}` by {column} {operator} "
                f"{', '.join(map(repr, values))}".rstrip(),
                hint="use df.filter(…), which Spark evaluates itself",
            )
        return {"column": column, "operator": operator, "values": values}

    def take(self) -> str:
        word, self._next = self._next, next(self._words, "")
        if not word:
            raise self.unreadable("its end")
        return word

    def expect(self, word: str) -> None:
        if self._next.upper() != word:
            raise self.unreadable(self._next or "its end")
        self._next = next(self._words, "")

    def unreadable(self, at: str) -> InvalidInput:
        return InvalidInput(
            f"where cannot be parsed at {at}: {self._where}", hint=f"write {GRAMMAR}"
        )
