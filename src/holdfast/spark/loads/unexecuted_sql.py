"""Detection of SQL statements that `spark.sql` has not executed when it returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_QUERIES = frozenset({"sql", "with_relations"})


def is_query(answer: DataFrame) -> bool:
    """Return whether the result of `spark.sql` is a query, which runs only when it is read."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    if isinstance(answer, ClassicDataFrame):
        executed = answer._jdf.queryExecution().commandExecuted()
        return str(executed.getClass().getSimpleName()) != "CommandResult"
    client: Any = answer.sparkSession.client
    relation = answer._plan.to_proto(client).root  # type: ignore[operator]
    return relation.WhichOneof("rel_type") in _QUERIES
