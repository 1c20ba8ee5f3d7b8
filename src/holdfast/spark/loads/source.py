"""Sources of loads: whether reading one twice gives the same rows."""

from __future__ import annotations

import re
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
_CHOOSING_NODES: Final = frozenset({"Deduplicate", "GlobalLimit", "LocalLimit", "Offset", "Sample"})
_CHOOSING_RELATIONS: Final = frozenset({"deduplicate", "limit", "offset", "sample", "tail"})
"""What takes some of the rows below it, and may take others the next time."""
_RANDOM: Final = re.compile(
    r"\b(rand|randn|random|randstr|uuid|shuffle|uniform|now|curdate|curtime|localtimestamp"
    r"|unix_timestamp|first|first_value|last|last_value|any_value)\b|current_|_id\(\)",
    re.IGNORECASE,
)


def is_fixed(df: DataFrame) -> bool:
    """Tell whether every read of `df` gives the same rows, whatever happens to its source.

    Files that were listed once are fixed, and data that is in the plan itself. Tables of a
    database or of a catalog are not, nor is what takes some rows of many, or depends on chance or
    the clock, nor what this function does not know.
    """
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    if isinstance(df, ClassicDataFrame):
        plan = df._jdf.queryExecution().analyzed()
        return all(map(_is_fixed_node, _nodes(plan)))
    client: Any = df.sparkSession.client
    proto = df._plan.to_proto(client)  # type: ignore[operator]
    return all(map(_is_fixed_message, _messages(proto.root)))


def _nodes(plan: Any) -> Iterator[Any]:
    """Yield the nodes of a plan of the JVM, those of subqueries included."""
    yield plan
    for several in (plan.children(), plan.subqueries()):
        for number in range(several.size()):
            yield from _nodes(several.apply(number))


def _is_fixed_node(node: Any) -> bool:
    kind = node.getClass().getSimpleName()
    if node.children().size():
        # To Spark, what depends on the clock is deterministic: it is the same within a query.
        chance = not node.deterministic() or _RANDOM.search(node.expressions().mkString(" "))
        return kind not in _CHOOSING_NODES and not chance
    if kind != "LogicalRelation":
        return kind in _FIXED_LEAVES
    relation = node.relation()
    is_table = node.catalogTable().isDefined()  # its files are listed again after an INSERT
    if is_table or relation.getClass().getSimpleName() != "HadoopFsRelation":
        return False
    return bool(relation.location().getClass().getSimpleName() == "InMemoryFileIndex")


def _messages(message: Any) -> Iterator[Any]:
    """Yield a message of Spark Connect's plan and all that are inside it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        several = not hasattr(value, "ListFields")
        parts = (value.values() if hasattr(value, "values") else value) if several else (value,)
        for part in parts:
            if hasattr(part, "ListFields"):
                yield from _messages(part)


def _is_fixed_message(message: Any) -> bool:
    match message.DESCRIPTOR.name:
        case "UnresolvedFunction":
            return not _RANDOM.search(f"{message.function_name}()")
        case "CommonInlineUserDefinedFunction":
            return bool(message.deterministic)
        case "ExpressionString":
            return not _RANDOM.search(message.expression)
        case "Relation":
            return _is_fixed_relation(message)
    return True


def _is_fixed_relation(relation: Any) -> bool:
    kind = relation.WhichOneof("rel_type")
    if kind in _CHOOSING_RELATIONS:
        return False
    if kind != "read":
        inner = getattr(relation, kind)
        has_relation = any(
            one.DESCRIPTOR.name == "Relation" for one in _messages(inner) if one is not inner
        )
        return has_relation or kind in _FIXED_RELATIONS
    read = relation.read
    return (
        read.WhichOneof("read_type") == "data_source"
        and not read.is_streaming
        and read.data_source.format.lower() in _FILES
        and not read.data_source.predicates
    )
