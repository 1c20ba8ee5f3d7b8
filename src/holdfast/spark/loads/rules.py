"""What a caller may say about an incremental load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args

from holdfast.errors import InvalidInput, InvalidType
from holdfast.spark.loads.cursor import Cursor, Lag, Value, cursor_of, type_of
from holdfast.spark.loads.watermark import Bound

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

Closed: TypeAlias = Literal["left", "right", "both", "neither"]
OnNull: TypeAlias = Literal["error", "skip", "include"]

MOST_REMEMBERED: Final = 100_000


class LoadRules(NamedTuple):
    """What the caller said about a load."""

    cursor: Cursor
    initial: Value | None
    lag: Lag | None
    end: Value | None
    closed: Closed
    on_null: OnNull
    primary_key: tuple[str, ...] | None
    hashed: dict[str, str]
    """The columns that make a row the same as one that is loaded, with their types."""
    remember: int

    def first(self) -> Bound | None:
        """Where the caller lets loads begin."""
        if self.initial is None:
            return None
        return Bound(self.initial, self.closed in ("left", "both"))

    def rereads_from(self, mark: Value) -> Bound | None:
        """How far back rows are read again, when so much is loaded."""
        if self.primary_key is None:
            return Bound(mark, closed=False)
        floor = mark if self.lag is None else self.cursor.before(mark, self.lag)
        return None if floor is None else Bound(floor, closed=True)


def load_rules(
    schema: StructType,
    cursor: str,
    initial: Any,
    lag: Any,
    end_value: Any,
    closed: Closed,
    on_null: OnNull,
    primary_key: str | Sequence[str] | None,
    remember: int,
) -> LoadRules:
    """The same, checked: each by itself and all together."""
    _check_choice("closed", closed, Closed)
    _check_choice("on_null", on_null, OnNull)
    by = cursor_of(schema, cursor)
    keys = (primary_key,) if isinstance(primary_key, str) else primary_key
    if not isinstance(keys, list | tuple | None):
        raise InvalidType(
            f"primary_key is {primary_key!r}", hint="give the name of a column, or a list of names"
        )
    rules = LoadRules(
        by,
        None if initial is None else by.given("initial", initial),
        None if lag is None else by.given_lag(lag),
        None if end_value is None else by.given("end_value", end_value),
        closed,
        on_null,
        None if keys is None else tuple(keys),
        _hashed(schema, by, keys or ()),
        remember,
    )
    _check(rules)
    return rules


def _hashed(schema: StructType, by: Cursor, keys: Sequence[str]) -> dict[str, str]:
    found = {name: type_of(schema, name, "the primary key").simpleString() for name in keys}
    # In an order that does not depend on the caller's: rows are known by the hash of all of them.
    types = dict(sorted(found.items()))
    for name, kind in types.items():
        if "map<" in kind or "variant" in kind:
            raise InvalidType(f"the primary key `{name}` is of the type {kind}: it has no order")
    return {by.name: by.spark_type.simpleString()} | types if types else {}


def _check(rules: LoadRules) -> None:
    if type(rules.remember) is not int or not 1 <= rules.remember <= MOST_REMEMBERED:
        raise InvalidInput(f"remember is {rules.remember!r}", hint=f"from 1 to {MOST_REMEMBERED:,}")
    if rules.lag is not None and rules.primary_key is None:
        raise InvalidInput(
            "with a lag, rows are read again that are loaded already",
            hint="give the primary_key by which they are told; or primary_key=(), for a write that "
            "replaces rows",
        )
    if rules.on_null == "include" and rules.primary_key != ():
        raise InvalidInput(
            "rows without a cursor value would be loaded again by each load",
            hint='give primary_key=() for a write that replaces rows, or on_null="skip"',
        )
    if rules.end is None and rules.closed in ("right", "both"):
        raise InvalidInput(
            f"closed={rules.closed!r} is about an end, and there is none", hint="give end_value"
        )
    if rules.end is not None and rules.lag is not None:
        raise InvalidInput(
            "a backfill has no lag: it begins at `initial`", hint="leave lag out, or end_value"
        )
    if rules.end is not None and rules.initial is not None and rules.end < rules.initial:  # type: ignore[operator]
        raise InvalidInput(f"end_value {rules.end} is before initial {rules.initial}")


def _check_choice(name: str, given: object, choices: Any) -> None:
    if given not in get_args(choices):
        among = ", ".join(repr(choice) for choice in get_args(choices))
        raise InvalidInput(f"{name} is {given!r}", hint=f"one of {among}")
