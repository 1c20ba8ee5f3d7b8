"""SQL statements that write the rows of a load."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from string import Formatter
from typing import TYPE_CHECKING, Any

from holdfast.errors import InvalidInput, InvalidType

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DOUBLE = "double literal braces: {{ and }}"
_QUERIES = frozenset({"sql", "with_relations"})


def statement(query: Any, arguments: Mapping[str, Any]) -> Callable[[DataFrame], None]:
    """Return a function that runs the statement with `{new}` for the rows that it is called with.

    Raise InvalidType unless it is text, and InvalidInput if it does not use `{new}`, or a
    placeholder without an argument; the function does if it cannot be parsed, or is a query.
    """
    if not isinstance(query, str):
        raise InvalidType(f"the statement is {query!r}", hint='new.sql("INSERT INTO …")')
    try:
        names = [name for _, name, _, _ in Formatter().parse(query) if name is not None]
    except ValueError as error:
        raise InvalidInput(
            f"the placeholders of the statement cannot be parsed: {error}", hint=_DOUBLE
        ) from None
    if "new" not in names:
        raise InvalidInput(
            "the statement does not read the new rows",
            hint="name them {new}: INSERT INTO orders SELECT * FROM {new}",
        )
    if unknown := [name for name in names if name not in ("new", *arguments)]:
        raise InvalidInput(
            f"the statement has {{{unknown[0]}}}, for which no argument was given", hint=_DOUBLE
        )

    def run(new: DataFrame) -> None:
        from pyspark.errors import ParseException

        try:
            answer = new.sparkSession.sql(query, new=new, **arguments)
        except ParseException as error:
            said = str(error).strip().partition(" SQLSTATE")[0]
            raise InvalidInput(
                f"the statement cannot be parsed: {said}",
                hint="give one statement; for several, new.write and new.view",
            ) from error
        if _is_query(answer):
            raise InvalidInput(
                "the statement is a query: it writes nothing",
                hint="INSERT INTO orders SELECT * FROM {new}",
            )

    return run


def _is_query(answer: DataFrame) -> bool:
    """Return whether the result of `spark.sql` is a query, which runs only when it is read."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    if isinstance(answer, ClassicDataFrame):
        executed = answer._jdf.queryExecution().commandExecuted()
        return str(executed.getClass().getSimpleName()) != "CommandResult"
    client: Any = answer.sparkSession.client
    relation = answer._plan.to_proto(client).root  # type: ignore[operator]
    return relation.WhichOneof("rel_type") in _QUERIES
