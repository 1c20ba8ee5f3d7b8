"""What Spark saw of a DataFrame while others ran actions on it.

PySpark's own `Observation` blocks for ever where no action ran, keeps the first of several actions
(classic) or the last (Connect), and counts an action that failed. So every action is recorded here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, Row

_PATIENCE_MS: Final = 10 * 60 * 1000


class Observed:
    """A DataFrame to hand out, and what each successful action on it saw."""

    def __init__(self, df: DataFrame, actions: list[dict[str, Any]]) -> None:
        self.df = df
        self.actions = actions
        """The aggregates of each action. Empty for one in which Spark has found that the rows do
        not matter: there are none, or the result does not depend on them."""


@contextmanager
def observed(df: DataFrame, aggregates: Mapping[str, Column]) -> Iterator[Observed]:
    """Observe aggregates of what goes through `df` in the block; `actions` is complete after it."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    columns = [column.alias(name) for name, column in aggregates.items()]
    if isinstance(df, ClassicDataFrame):
        with _observed_by_listener(df, columns) as result:
            yield result
    else:
        yield _observed_by_client(df, columns)


def _observed_by_client(df: DataFrame, columns: list[Column]) -> Observed:
    """With Spark Connect the client is told the aggregates with the result of each action."""
    from pyspark.sql.connect.observation import Observation

    actions: list[dict[str, Any]] = []

    class Told(dict[str, Any]):
        def update(self, *told: Any, **_: Any) -> None:
            actions.append(dict(*told))

    observation = Observation()
    handed = df.observe(observation, *columns)  # type: ignore[arg-type]
    observation._result = Told()
    return Observed(handed, actions)


@contextmanager
def _observed_by_listener(df: Any, columns: list[Column]) -> Iterator[Observed]:
    """In classic Spark a listener hears of each query that has ended, some time after it."""
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
        yield Observed(df.observe(listener.name, *columns), listener.actions)
        context._jsc.sc().listenerBus().waitUntilEmpty(_PATIENCE_MS)
    finally:
        calls["unregister"].invoke(listeners, kept.toArray())
    if listener.failure is not None:
        raise listener.failure


class _Listener:
    """Spark's `QueryExecutionListener`, called back from the JVM."""

    def __init__(self, name: str, jvm: Any) -> None:
        self.name = name
        self.actions: list[dict[str, Any]] = []
        self.failure: Exception | None = None
        self._jvm = jvm

    def onSuccess(self, action: str, query: Any, nanoseconds: int) -> None:  # noqa: N802
        try:
            self._record(query)
        except Exception as error:  # the JVM would only log it
            self.failure = error

    def onFailure(self, action: str, query: Any, error: Any) -> None:  # noqa: N802
        """A write that failed wrote nothing that counts."""

    def equals(self, other: object) -> bool:
        """By which Spark finds what to remove."""
        return other is self

    def _record(self, query: Any) -> None:
        from pyspark.serializers import CPickleSerializer

        metrics = query.observedMetrics()
        if metrics.contains(self.name):
            python = self._jvm.org.apache.spark.sql.api.python.PythonSQLUtils
            pickled = python.toPyRow(metrics.apply(self.name))
            row: Row = CPickleSerializer().loads(pickled)  # type: ignore[no-untyped-call]
            self.actions.append(row.asDict())
        elif self.name in query.analyzed().toString():
            self.actions.append({})

    class Java:
        implements = ("org.apache.spark.sql.util.QueryExecutionListener",)
