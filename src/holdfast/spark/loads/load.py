"""What is new since the watermark, and the one write of it that counts."""

from __future__ import annotations

import logging
from collections.abc import Callable
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NamedTuple

from holdfast.accessor import AssetStore
from holdfast.entry import TaskWriter
from holdfast.errors import InvalidInput, VersionConflict
from holdfast.spark.loads.cursor import Value, quoted
from holdfast.spark.loads.observation import observed
from holdfast.spark.loads.rules import LoadRules
from holdfast.spark.loads.watermark import Bound, Memory, Watermark, as_json, from_json, latest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

log = logging.getLogger("holdfast")


class Loaded(NamedTuple):
    """What a load has written."""

    rows: int
    """How many rows. Spark counts a part twice that it computed twice, as when it lost an
    executor after a shuffle; the watermark is exact then, too."""
    from_: Value | None
    """The watermark that the load started from; of a backfill, `initial`."""
    to: Value | None
    """The watermark after it; of a backfill, the highest cursor value."""


class Load:
    """What is new: to look at, and to write once."""

    def __init__(self, df: DataFrame, store: AssetStore, key: str, rules: LoadRules) -> None:
        self._store = store
        self._key = key
        self._rules = rules
        self._backfill = rules.end is not None
        self._written = False
        self._version, self._mark = (0, None) if self._backfill else self._stands()
        self._start, self._memory = self._begin()
        self._df = self._new_rows(df)

    @property
    def df(self) -> DataFrame:
        """The new rows, to look at: nothing comes of it."""
        return self._df

    @property
    def watermark(self) -> Value | None:
        """How far the asset was loaded when this load began; None before the first."""
        return self._mark.value if self._mark else None

    @property
    def name(self) -> str:
        """A directory name such as `load=000000000042`, for writes with `mode("overwrite")`.

        It is the same until a load succeeds, so that the next one replaces what a load that
        failed has left, and then another one. Of a backfill, it is made from its range.
        """
        if not self._backfill:
            return f"load={self._version:012}"
        rules = self._rules
        text = repr((rules.cursor.name, rules.initial, rules.end, rules.closed))
        return f"load=backfill-{sha256(text.encode()).hexdigest()[:16]}"

    def write(self, fn: Callable[[DataFrame], object]) -> Loaded:
        """Let `fn` write the new rows, and move the watermark to the highest value among them.

        It moves when the attempt succeeds, on condition that nobody has moved it meanwhile; at
        once where the store belongs to no attempt. With nothing new it stays.
        """
        from pyspark.errors import PySparkException

        if self._written:
            raise InvalidInput("this load is written", hint="call incremental() for the next one")
        self._check_unmoved()
        with observed(self._df, self._aggregates()) as handed:
            try:
                fn(handed.df)
            except PySparkException as error:
                if self._null_cursor() in str(error):
                    raise InvalidInput(
                        f"{self._null_cursor()}; nothing was loaded",
                        hint='on_null="skip" leaves such rows out',
                    ) from error
                raise
        rows, top, loaded = self._agreed(handed.actions)
        self._written = True
        if self._backfill:
            return Loaded(rows, self._rules.initial, top)
        if top is None:
            log.info("nothing new for %s after %s", self._where(), self.watermark)
            return Loaded(rows, self.watermark, self.watermark)
        mark = self._moved(top, loaded)
        if mark != self._mark:
            self._check_unmoved()
            self._keep(mark)
        return Loaded(rows, self.watermark, mark.value)

    def _where(self) -> str:
        return f"`{self._key}` of {self._store._scope}"

    def _null_cursor(self) -> str:
        return f"the cursor `{self._rules.cursor.name}` is null in a row for {self._where()}"

    def _stands(self) -> tuple[int, Watermark | None]:
        entry = self._store.entry(self._key)
        if entry is None:
            return 0, None
        if entry.staged:
            raise InvalidInput(
                f"this attempt has loaded already: {self._where()} waits for its success",
                hint="load once in an attempt, or give another key=",
            )
        return entry.version, from_json(entry.value, self._rules.cursor, self._where())

    def _begin(self) -> tuple[Bound | None, Memory | None]:
        """Where to read from, and which rows from there on are loaded already."""
        rules, mark = self._rules, self._mark
        memory = Memory(rules.hashed, None, ()) if rules.hashed else None
        if mark is None:
            return rules.first(), memory
        again = rules.rereads_from(mark.value)
        if memory is None:
            return latest((rules.first(), again)), None
        if mark.memory is None or mark.memory.columns != memory.columns:
            log.warning(
                "%s does not know which rows are loaded by %s: this load begins after %s, and "
                "rows that come late are told from then on",
                *(self._where(), ", ".join(memory.columns), mark.value),
            )
            return latest((rules.first(), Bound(mark.value, closed=False))), memory
        return latest((rules.first(), again, mark.memory.since)), mark.memory

    def _new_rows(self, df: DataFrame) -> DataFrame:
        from pyspark.sql import functions

        rules, column = self._rules, self._rules.cursor.column
        wanted = [
            bound for bound in (self._lower(column), self._upper(column)) if bound is not None
        ]
        inside = wanted[0] & wanted[-1] if wanted else None
        if rules.on_null == "skip":
            rows = df.where(column.isNotNull() if inside is None else inside)
        else:
            rows = df if inside is None else df.where(inside | column.isNull())
        if rules.on_null == "error":
            # It fails the job, and with it the write, before anything counts.
            failing = functions.raise_error(functions.lit(self._null_cursor()))
            rows = rows.where(
                functions.when(column.isNull(), failing).otherwise(functions.lit(True))
            )
        if self._memory is None:
            return rows
        if keys := self._memory.keys():
            among = ", ".join(f"{number}L" for number in keys)
            rows = rows.where(functions.expr(f"{self._hash()} NOT IN ({among})"))
        return rows.dropDuplicates(list(rules.hashed))

    def _lower(self, column: Column) -> Column | None:
        if self._start is None:
            return None
        value = self._rules.cursor.literal(self._start.value)
        return column >= value if self._start.closed else column > value

    def _upper(self, column: Column) -> Column | None:
        if self._rules.end is None:
            return None
        value = self._rules.cursor.literal(self._rules.end)
        return column <= value if self._rules.closed in ("right", "both") else column < value

    def _hash(self) -> str:
        """SQL for the hash of what makes a row the same. Null alone leaves xxhash64 as it is."""
        parts = [f"{quoted(name)}, isnull({quoted(name)})" for name in self._rules.hashed]
        return f"xxhash64({', '.join(parts)})"

    def _aggregates(self) -> dict[str, Column]:
        from pyspark.sql import functions

        cursor = self._rules.cursor
        aggregates = {
            "rows": functions.count(functions.lit(1)),
            "top": cursor.observed(functions.max(cursor.column)),
        }
        if self._memory is not None and not self._backfill:
            # One more than may be remembered, to know whether there are more.
            row = functions.struct(
                cursor.observed(cursor.column).alias("at"), functions.expr(self._hash())
            )
            aggregates["loaded"] = functions.max_by(row, cursor.column, self._rules.remember + 1)
        return aggregates

    def _agreed(
        self, actions: list[dict[str, Any]]
    ) -> tuple[int, Value | None, list[tuple[Value, int]]]:
        """What all actions have seen: how many rows, the highest cursor value, the last rows."""
        if not actions:
            raise InvalidInput(
                f"no write of the DataFrame that was handed over was seen, for {self._where()}; "
                "the watermark stays",
                hint="write what the function is given, with DataFrame.write or a table's insert; "
                "foreach, rdd and toLocalIterator are not seen",
            )
        told = [action for action in actions if action]
        # Among rows of the same cursor value, Spark may name them in any order.
        seen = {(one["top"], frozenset(map(tuple, one.get("loaded") or ()))) for one in told}
        if len(seen) > 1:
            raise InvalidInput(
                f"several actions saw different rows, for {self._where()}; the watermark stays",
                hint="write only, once or to several places: look at load.df before, with show(), "
                "isEmpty() or count()",
            )
        if not told:
            return 0, None, []
        of = self._rules.cursor.from_observed
        top = told[-1]["top"]
        loaded = [(of(at), key) for at, key in told[-1].get("loaded") or ()]
        rows = max(action["rows"] for action in told)
        return rows, None if top is None else of(top), loaded

    def _moved(self, top: Value, loaded: list[tuple[Value, int]]) -> Watermark:
        """The watermark after this load."""
        value = top if self._mark is None else max(self._mark.value, top)
        if self._memory is None:
            return Watermark(value)
        since = latest((self._rules.rereads_from(value), self._start))
        memory = Memory(self._rules.hashed, since, self._memory.groups).with_load(since, loaded)
        count = len(memory.keys())
        if count > self._rules.remember:
            raise InvalidInput(
                f"more than {self._rules.remember:,} loaded rows may come again, for "
                f"{self._where()}: they cannot be remembered, and the watermark stays",
                hint="a shorter lag or a finer cursor makes them fewer; a larger remember= keeps "
                "more; primary_key=() leaves it to a write that replaces rows",
            )
        return Watermark(value, memory)

    def _check_unmoved(self) -> None:
        if self._backfill:
            return
        entry = self._store.entry(self._key)
        version = entry.version if entry else 0
        if version != self._version:
            raise VersionConflict(
                f"{self._where()} has version {version}, and this load started from "
                f"{self._version}: another load was faster, and this one counts for nothing",
                hint="run it again: it loads what is new since then. If both have written to the "
                "same place, rewind the watermark to before them, and load that place again",
            )

    def _keep(self, mark: Watermark) -> None:
        writer = self._store._writer
        staged = isinstance(writer, TaskWriter) and writer.attempt is not None
        value = as_json(mark, self._rules.cursor)
        self._store.set(self._key, value, on_success=staged, if_version=self._version)
