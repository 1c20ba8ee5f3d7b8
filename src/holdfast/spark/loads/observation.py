"""How many rows Spark saw go through a DataFrame, in each action of the caller's.

It is a check: not every action is shown. PySpark's own `Observation` blocks for ever where no
action ran, keeps one of several actions, and counts an action that failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

_TIMEOUT_MS: Final = 10 * 60 * 1000
_ROWS: Final = "rows"


class Observed:
    """A DataFrame to hand out, and how many rows each successful action on it saw."""

    def __init__(self, df: DataFrame, counts: list[int]) -> None:
        self.df = df
        self.counts = counts


@contextmanager
def observed(df: DataFrame) -> Iterator[Observed]:
    """Count the rows that go through `df` in the block; `counts` is complete after it."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    if isinstance(df, ClassicDataFrame):
        with _observed_by_listener(df) as result:
            yield result
    else:
        yield _observed_by_client(df)


def _counted() -> Any:
    from pyspark.sql import functions

    return functions.count(functions.lit(1)).alias(_ROWS)


def _observed_by_client(df: DataFrame) -> Observed:
    """Spark Connect tells the client the metrics with the result of each action."""
    from pyspark.sql.connect.observation import Observation

    counts: list[int] = []

    class Recorder(dict[str, Any]):
        def update(self, *told: Any, **_: Any) -> None:
            # Nothing, where Spark found that the result does not depend on the rows.
            counts.extend(count for name, count in dict(*told).items() if name == _ROWS)

    observation = Observation()
    handed = df.observe(observation, _counted())  # type: ignore[arg-type]
    observation._result = Recorder()
    return Observed(handed, counts)


@contextmanager
def _observed_by_listener(df: Any) -> Iterator[Observed]:
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
        yield Observed(df.observe(listener.name, _counted()), listener.counts)
        context._jsc.sc().listenerBus().waitUntilEmpty(_TIMEOUT_MS)
    finally:
        calls["unregister"].invoke(listeners, kept.toArray())
    if listener.failure is not None:
        raise listener.failure


class _Listener:
    """Spark's `QueryExecutionListener`, called back from the JVM."""

    def __init__(self, name: str, jvm: Any) -> None:
        self.name = name
        self.counts: list[int] = []
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
            self.counts.append(row[_ROWS])

    class Java:
        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)
