"""Observation of the rows that pass through a DataFrame in each action: by default their number.

It is only a check: not every action is reported. PySpark's own `Observation` blocks forever if no
action ran, keeps one of several actions, and counts an action that failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

_TIMEOUT_MS: Final = 10 * 60 * 1000
_ROWS: Final = "rows"


class Observed:
    """A DataFrame to hand out, and the metrics of each successful action on it."""

    def __init__(self, df: DataFrame, seen: list[dict[str, Any]]) -> None:
        self.df = df
        self.seen = seen

    @property
    def counts(self) -> list[int]:
        return [one[_ROWS] for one in self.seen]


@contextmanager
def observed(df: DataFrame, *aggregates: Column) -> Iterator[Observed]:
    """Observe the rows that pass through `df` in the block, by default their number; `seen` is
    complete after it."""
    from pyspark.sql import functions
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    aggregates = aggregates or (functions.count(functions.lit(1)).alias(_ROWS),)
    if isinstance(df, ClassicDataFrame):
        with _observed_by_listener(df, aggregates) as result:
            yield result
    else:
        yield _observed_by_client(df, aggregates)


def _observed_by_client(df: DataFrame, aggregates: tuple[Column, ...]) -> Observed:
    """Observe in Spark Connect, which sends the client the metrics with the result of each
    action."""
    from pyspark.sql.connect.observation import Observation

    seen: list[dict[str, Any]] = []

    class Recorder(dict[str, Any]):
        def update(self, *values: Any, **_: Any) -> None:
            # Empty if Spark found that the result does not depend on the rows.
            seen.extend([found] if (found := dict(*values)) else [])

    observation = Observation()
    handed = df.observe(observation, *aggregates)  # type: ignore[arg-type]
    observation._result = Recorder()
    return Observed(handed, seen)


@contextmanager
def _observed_by_listener(df: Any, aggregates: tuple[Column, ...]) -> Iterator[Observed]:
    """Observe in classic Spark, where a listener is called some time after the end of each
    query."""
    from pyspark.java_gateway import ensure_callback_server_started

    context = df.sparkSession.sparkContext
    ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
    listener = _Listener(f"holdfast-{uuid4()}", context._jvm)
    # One Java object for both calls: py4j would create another for each, and Spark would not know
    # which to remove.
    kept = context._jvm.java.util.ArrayList()
    kept.add(listener)
    listeners = df.sparkSession._jsparkSession.listenerManager()
    calls = {method.getName(): method for method in listeners.getClass().getMethods()}
    calls["register"].invoke(listeners, kept.toArray())
    try:
        yield Observed(df.observe(listener.name, *aggregates), listener.seen)
        context._jsc.sc().listenerBus().waitUntilEmpty(_TIMEOUT_MS)
    finally:
        calls["unregister"].invoke(listeners, kept.toArray())
    if listener.failure is not None:
        raise listener.failure


class _Listener:
    """Spark's `QueryExecutionListener`, called back from the JVM."""

    def __init__(self, name: str, jvm: Any) -> None:
        self.name = name
        self.seen: list[dict[str, Any]] = []
        self.failure: Exception | None = None
        self._jvm = jvm

    def onSuccess(self, action: str, query: Any, nanoseconds: int) -> None:  # noqa: N802
        try:
            self._record(query)
        except Exception as error:  # the JVM would only log it
            self.failure = error

    def onFailure(self, action: str, query: Any, error: Any) -> None:  # noqa: N802
        """Ignore it: the output of a failed write does not count."""

    def equals(self, other: object) -> bool:
        """Return whether it is this listener, by which Spark finds the one to remove."""
        return other is self

    def _record(self, query: Any) -> None:
        from pyspark.serializers import CPickleSerializer

        metrics = query.observedMetrics()
        if metrics.contains(self.name):
            python = self._jvm.org.apache.spark.sql.api.python.PythonSQLUtils
            pickled = python.toPyRow(metrics.apply(self.name))
            row: Row = CPickleSerializer().loads(pickled)  # type: ignore[no-untyped-call]
            self.seen.append(row.asDict())

    class Java:
        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)
