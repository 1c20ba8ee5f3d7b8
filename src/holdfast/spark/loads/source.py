"""Sources of loads: whether reading one twice gives the same rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FILES: Final = frozenset({"avro", "csv", "json", "orc", "parquet", "text", "xml"})
_FIXED_RELATIONS: Final = frozenset(
    {
        "cached_local_relation",
        "cached_remote_relation",
        "chunked_cached_local_relation",
        "local_relation",
        "range",
    }
)
_FIXED_LEAVES: Final = frozenset({"LocalRelation", "OneRowRelation", "Range"})


def is_fixed(df: DataFrame) -> bool:
    """Tell whether every read of `df` gives the same rows, whatever happens to its source.

    Files that were listed once are fixed, and data that is in the plan itself. Tables of a
    database or of a catalog are not, nor is what this function does not know.
    """
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    if isinstance(df, ClassicDataFrame):
        plan = df._jdf.queryExecution().analyzed()
        return bool(plan.deterministic()) and all(map(_is_fixed_leaf, _leaves(plan)))
    client: Any = df.sparkSession.client
    proto = df._plan.to_proto(client)  # type: ignore[operator]
    return all(map(_is_fixed_relation, _relations(proto.root)))


def _leaves(plan: Any) -> Iterator[Any]:
    """Yield the leaves of a plan of the JVM, subqueries included."""
    leaves = plan.collectLeaves()
    yield from (leaves.apply(number) for number in range(leaves.size()))
    subqueries = plan.subqueriesAll()
    for number in range(subqueries.size()):
        yield from _leaves(subqueries.apply(number))


def _is_fixed_leaf(leaf: Any) -> bool:
    kind = leaf.getClass().getSimpleName()
    if kind != "LogicalRelation":
        return kind in _FIXED_LEAVES
    relation = leaf.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return False
    return bool(relation.location().getClass().getSimpleName() == "InMemoryFileIndex")


def _relations(message: Any) -> Iterator[Any]:
    """Yield the relations in a plan of Spark Connect that have no relation below them."""
    inner = list(_inner(message))
    if message.DESCRIPTOR.name == "Relation" and not inner:
        yield message
    for one in inner:
        yield from _relations(one)


def _inner(message: Any) -> Iterator[Any]:
    """Yield the nearest relations inside a message."""
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        several = not hasattr(value, "ListFields")
        parts = (value.values() if hasattr(value, "values") else value) if several else (value,)
        for part in parts:
            if not hasattr(part, "ListFields"):
                continue
            if part.DESCRIPTOR.name == "Relation":
                yield part
            else:
                yield from _inner(part)


def _is_fixed_relation(relation: Any) -> bool:
    kind = relation.WhichOneof("rel_type")
    if kind != "read":
        return kind in _FIXED_RELATIONS
    read = relation.read
    return (
        read.WhichOneof("read_type") == "data_source"
        and not read.is_streaming
        and read.data_source.format.lower() in _FILES
        and not read.data_source.predicates
    )
