"""Validation of the arguments of an incremental load."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple, TypeAlias, get_args

from holdfast.errors import InvalidInput, InvalidType
from holdfast.spark.loads.column_lookup import Columns
from holdfast.spark.loads.cursor import Cursor, Lag, Value, VersionCursor, cursor_of
from holdfast.spark.loads.expectations import Expectations, expectations
from holdfast.spark.loads.row_identity import Identity, identity_of
from holdfast.spark.loads.watermark import Bound
from holdfast.spark.paths import check_path

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Closed: TypeAlias = Literal["left", "right", "both", "neither"]
OnNull: TypeAlias = Literal["error", "skip", "include"]
Contract: TypeAlias = Literal["warn", "fail"]

MOST_REMEMBERED: Final = 100_000


class LoadRules(NamedTuple):
    """The arguments of `incremental`, validated."""

    cursor: Cursor[Value]
    initial: Value | None
    lag: Lag | None
    until: Value | None
    until_is_named: bool
    """The caller gives a value, not a time before now: the source has all rows up to it."""
    max_rows: int | None
    end: Value | None
    """The upper end of a backfill."""
    closed: Closed
    on_null: OnNull
    replaces: bool
    """Rows that may be loaded already are read again, for a write that replaces them."""
    identity: Identity | None
    """The identity by which rows that are loaded already are left out."""
    remember: int
    expect: Expectations
    quarantine: str | None
    contract: Contract | None
    materialize: bool | None
    now: datetime
    """The time at which the load began."""

    @property
    def is_backfill(self) -> bool:
        return self.end is not None

    def first(self) -> Bound | None:
        """Return the lower bound that the caller sets for all loads."""
        if self.initial is None:
            return None
        return Bound(self.initial, self.closed in ("left", "both"))

    def rereads_from(self, mark: Value) -> Bound | None:
        """Return the lower bound of a load that follows the watermark; None: the first row."""
        if self.identity is None and not self.replaces:
            return Bound(mark, closed=False)
        floor = mark if self.lag is None else self.cursor.before(mark, self.lag)
        return None if floor is None else Bound(floor, closed=True)

    def top(self) -> Value | None:
        """Return the highest cursor value that a row may have; None: any."""
        given = self.end if self.end is not None else self.until
        return given if given is not None else self.cursor.horizon(self.now)

    @property
    def top_is_closed(self) -> bool:
        return not self.is_backfill or self.closed in ("right", "both")

    def digest(self) -> str:
        """Return a digest of the rules that determine which rows between two cursor values are
        written."""
        kinds = self.identity.kinds if self.identity else self.replaces
        rules = (self.cursor.name.lower(), self.cursor.kind, self.initial, self.lag, self.on_null)
        checks = (self.closed, self.expect.given, self.quarantine)
        return sha256(repr((*rules, kinds, *checks)).encode()).hexdigest()[:16]


def load_rules(
    df: DataFrame,
    *,
    cursor: str,
    initial: Any = None,
    lag: Any = None,
    until: Any = None,
    max_rows: Any = None,
    end_value: Any = None,
    closed: Closed = "left",
    on_null: OnNull = "error",
    primary_key: str | Sequence[str] | None = None,
    remember: int = 5000,
    expect: Any = None,
    quarantine: Any = None,
    contract: Any = None,
    materialize: Any = None,
) -> LoadRules:
    """Validate the arguments, individually and in combination.

    Raise InvalidInput or InvalidType, which name the argument.
    """
    if not hasattr(df, "isStreaming"):
        raise InvalidType(f"the source is a {type(df).__name__}", hint="pass a Spark DataFrame")
    if df.isStreaming:
        raise InvalidInput(
            "the source is a streaming DataFrame, which tracks its own progress",
            hint="use holdfast.spark.foreach_batch",
        )
    check_choice("closed", closed, get_args(Closed))
    check_choice("on_null", on_null, get_args(OnNull))
    check_choice("contract", contract, (None, *get_args(Contract)))
    check_choice("materialize", materialize, (None, True, False))
    columns = Columns.of(df)
    found = columns.find(cursor, "the cursor")
    by = cursor_of(found, case_sensitive=columns.case_sensitive)
    keys = (primary_key,) if isinstance(primary_key, str) else primary_key
    if not isinstance(keys, list | tuple | None):
        raise InvalidType(
            f"primary_key is {primary_key!r}", hint="give the name of a column, or a list of names"
        )
    now = datetime.now(UTC)
    rules = LoadRules(
        cursor=by,
        initial=None if initial is None else by.given("initial", initial),
        lag=None if lag is None else by.given_lag(lag),
        until=_until(by, until, now),
        until_is_named=not callable(until) and not isinstance(until, timedelta),
        max_rows=max_rows,
        end=None if end_value is None else by.given("end_value", end_value),
        closed=closed,
        on_null=on_null,
        replaces=keys is not None and not keys,
        identity=identity_of(
            by.source,
            [columns.find(name, "the primary key") for name in keys or ()],
            case_sensitive=columns.case_sensitive,
        ),
        remember=remember,
        expect=expectations(df, columns, expect),
        quarantine=None if quarantine is None else check_path("quarantine", quarantine),
        contract=contract,
        materialize=materialize,
        now=now,
    )
    _check(rules)
    return rules


def version_rules(
    name: str,
    spark: SparkSession,
    schema: StructType,
    *,
    until: Any = None,
    max_rows: Any = None,
    expect: Any = None,
    quarantine: Any = None,
    contract: Any = None,
    materialize: Any = None,
    **others: Any,
) -> LoadRules:
    """Validate the arguments of a load whose cursor is the version of a lake table; `name` is that
    of its format.

    Raise InvalidInput or InvalidType, which name the argument.
    """
    given = signature(load_rules).parameters
    for other, value in others.items():
        if value != (None if other == "cursor" else given[other].default):
            raise InvalidInput(
                f"{other} is given, but the cursor is the version of a table",
                hint=f"remove {other}, or load a DataFrame: read_table(spark, …)",
            )
    check_choice("contract", contract, (None, *get_args(Contract)))
    check_choice("materialize", materialize, (None, True, False))
    cursor: Cursor[Any] = VersionCursor(name)
    empty = spark.createDataFrame([], schema)
    rules = LoadRules(
        cursor=cursor,
        initial=None,
        lag=None,
        until=None if until is None else cursor.given("until", until),
        until_is_named=True,
        max_rows=max_rows,
        end=None,
        closed="left",
        on_null="error",
        replaces=False,
        identity=None,
        remember=1,
        expect=expectations(empty, Columns.of(empty), expect),
        quarantine=None if quarantine is None else check_path("quarantine", quarantine),
        contract=contract,
        materialize=materialize,
        now=datetime.now(UTC),
    )
    _check(rules)
    return rules


def _until(cursor: Cursor[Value], until: Any, now: datetime) -> Value | None:
    given = until() if callable(until) else until
    if given is None:
        return None
    if isinstance(given, timedelta):
        if given < timedelta(0):
            raise InvalidInput(
                f"until is {given!r}, which is in the future",
                hint="give how long before now the load ends: timedelta(minutes=5)",
            )
        try:
            given = cursor.at(now - given)
        except OverflowError:
            raise InvalidInput(f"until is {given!r} before now, which is out of range") from None
    return cursor.given("until", given)


def _check(rules: LoadRules) -> None:
    if type(rules.remember) is not int or not 1 <= rules.remember <= MOST_REMEMBERED:
        raise InvalidInput(
            f"remember is {rules.remember!r}", hint=f"give a number from 1 to {MOST_REMEMBERED:,}"
        )
    if rules.max_rows is not None and (type(rules.max_rows) is not int or rules.max_rows < 1):
        raise InvalidInput(f"max_rows is {rules.max_rows!r}", hint="give 1 or more")
    if rules.lag is not None and rules.identity is None and not rules.replaces:
        raise InvalidInput(
            "with a lag, rows that are already loaded are read again",
            hint="give the primary_key that identifies them, or primary_key=() if the write "
            "replaces rows",
        )
    if rules.on_null == "include" and not rules.replaces:
        raise InvalidInput(
            "every load would load the rows without a cursor value again",
            hint='give primary_key=() if the write replaces rows, or on_null="skip"',
        )
    if rules.quarantine is not None and not rules.expect.conditions:
        raise InvalidInput(
            "quarantine is given without a check that rows could fail",
            hint="give expect= with not_null, range or where",
        )
    if rules.is_backfill:
        _check_backfill(rules)
    elif rules.closed in ("right", "both"):
        raise InvalidInput(
            f"closed={rules.closed!r} applies to the end of a backfill, and there is no end_value",
            hint="give end_value",
        )


def _check_backfill(rules: LoadRules) -> None:
    for name, given in (("lag", rules.lag), ("until", rules.until), ("max_rows", rules.max_rows)):
        if given is not None:
            raise InvalidInput(
                f"a backfill has no {name}: it goes from `initial` to `end_value`",
                hint=f"remove {name} or end_value",
            )
    if rules.initial is not None and rules.end < rules.initial:  # type: ignore[operator]
        raise InvalidInput(f"end_value {rules.end} is before initial {rules.initial}")


def check_choice(name: str, given: object, choices: tuple[object, ...]) -> None:
    """Raise InvalidInput unless an argument is one of the choices."""
    if not any(given is choice or given == choice for choice in choices):
        among = ", ".join(repr(choice) for choice in choices if choice is not None)
        raise InvalidInput(f"{name} is {given!r}", hint=f"use one of {among}")
