"""What Spark saw go through a DataFrame, in each action of the caller's: how many rows, as a rule.

It is a check: not every action is shown. PySpark's own `Observation` blocks for ever where no
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
    """A DataFrame to hand out, and what each successful action on it saw."""

    def __init__(self, df: DataFrame, seen: list[dict[str, Any]]) -> None:
        self.df = df
        self.seen = seen

    @property
    def counts(self) -> list[int]:
        return [one[_ROWS] for one in self.seen]


@contextmanager
def observed(df: DataFrame, *aggregates: Column) -> Iterator[Observed]:
    """Observe the rows that go through `df` in the block, by default how many; `seen` is complete
    after it."""
    from pyspark.sql import functions
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    aggregates = aggregates or (functions.count(functions.lit(1)).alias(_ROWS),)
    if isinstance(df, ClassicDataFrame):
        with _observed_by_listener(df, aggregates) as result:
            yield result
    else:
        yield _observed_by_client(df, aggregates)


def _observed_by_client(df: DataFrame, aggregates: tuple[Column, ...]) -> Observed:
    """Spark Connect tells the client the metrics with the result of each action."""
    from pyspark.sql.connect.observation import Observation

    seen: list[dict[str, Any]] = []

    class Recorder(dict[str, Any]):
        def update(self, *told: Any, **_: Any) -> None:
            # Nothing, where Spark found that the result does not depend on the rows.
            seen.extend([found] if (found := dict(*told)) else [])

    observation = Observation()
    handed = df.observe(observation, *aggregates)  # type: ignore[arg-type]
    observation._result = Recorder()
    return Observed(handed, seen)


@contextmanager
def _observed_by_listener(df: Any, aggregates: tuple[Column, ...]) -> Iterator[Observed]:
    """In classic Spark a listener is told of each query some time after its end."""
    from pyspark.java_gateway import ensure_callback_server_started

    context = df.sparkSession.sparkContext
    ensure_callback_server_started(context._gateway)  # type: ignore[no-untyped-call]
    listener = _Listener(f"holdfast-{uuid4()}", context._jvm)
    # One object of Java's for both calls: py4j would make another for each, and Spark would not
    # know which to remove.
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
        """Ignore it: a write that failed wrote nothing that counts."""

    def equals(self, other: object) -> bool:
        """Tell Spark which listener to remove."""
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
