"""Guarantees of a load's source when it is read twice, or in parts."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_FILES: Final = frozenset({"avro", "orc", "parquet", "text"})
_PARSED_FILES: Final = frozenset({"csv", "json", "xml"})
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
_MEMORY_LEAVES: Final = frozenset({"ExternalRDD", "InMemoryRelation", "LogicalRDD"})
_CHOOSING_NODES: Final = frozenset(
    {"Deduplicate", "GlobalLimit", "LocalLimit", "Offset", "Sample", "Window"}
)
_CHOOSING_RELATIONS: Final = frozenset(
    {"deduplicate", "limit", "offset", "sample", "sample_by", "tail"}
)
"""Operations that select some of the rows below, or order them with ties left open."""
_RANDOM: Final = re.compile(
    r"\b(rand|randn|random|randstr|uuid|shuffle|uniform|now|curdate|curtime|unix_timestamp"
    r"|reflect|try_reflect|java_method"
    r"|first|first_value|last|last_value|any_value|max_by|min_by|mode|collect_list|collect_set"
    r"|array_agg|listagg|string_agg|over)\s*\(|\bselect\b|localtimestamp|current_|_id\(\)",
    re.IGNORECASE,
)
_PARSING: Final = re.compile(r"\bfrom_(json|csv|xml)\b", re.IGNORECASE)
_CALLED: Final = re.compile(r"([A-Za-z_][\w.`]*)\s*\(")
_WORDS: Final = frozenset(
    {"and", "array", "as", "between", "binary", "by", "case", "cast", "char", "decimal", "distinct"}
    | {"div", "else", "end", "from", "if", "ilike", "in", "interval", "is", "like", "map", "mod"}
    | {"not", "null", "numeric", "or", "rlike", "string", "struct", "then", "to", "varchar", "when"}
)
"""SQL keywords that may precede a parenthesis without being a function."""


class Source(NamedTuple):
    """The guarantees of a source."""

    is_fixed: bool = True
    """Every read returns the same rows, whatever happens to the source meanwhile."""
    is_parsed: bool = False
    """Which rows there are, and their values, may depend on the columns that are read: malformed
    text is detected only in those."""
    compares_as_spark: bool = True
    """A condition that Spark pushes down means the same in the source. A database has its own
    collation, and may read a time in another time zone."""


def source_of(df: DataFrame) -> Source:
    """Analyze what `df` reads, and return its guarantees.

    Files that were listed once are fixed, and so is data in the plan itself. Not fixed are tables
    of a database or of a catalog, operations that select some of many rows, or depend on chance or
    the clock, and anything that this function does not know.
    """
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

    if isinstance(df, ClassicDataFrame):
        return _all(map(_of_node, _nodes(df._jdf.queryExecution().analyzed())))
    client: Any = df.sparkSession.client
    proto = df._plan.to_proto(client)  # type: ignore[operator]
    return _all(map(_of_message, _messages(proto.root)))


def _all(sources: Iterable[Source]) -> Source:
    """Return the guarantees of a source that has these as parts."""
    found = list(sources)
    return Source(
        is_fixed=all(one.is_fixed for one in found),
        is_parsed=any(one.is_parsed for one in found),
        compares_as_spark=all(one.compares_as_spark for one in found),
    )


def _of_files(kind: str) -> Source:
    """Return the guarantees of files of that format."""
    if kind in _PARSED_FILES:
        return Source(is_parsed=True)
    is_known = kind in _FILES
    return Source(is_fixed=is_known, compares_as_spark=is_known)


def _nodes(plan: Any) -> Iterator[Any]:
    """Yield the nodes of a JVM plan, including those of subqueries."""
    yield plan
    for several in (plan.children(), plan.subqueries()):
        for number in range(several.size()):
            yield from _nodes(several.apply(number))


def _of_node(node: Any) -> Source:
    kind = node.getClass().getSimpleName()
    if node.children().size():
        shown = node.expressions().mkString(" ")
        # Spark considers the clock deterministic, because it is constant within a query.
        by_chance = not node.deterministic() or bool(_RANDOM.search(shown))
        return Source(
            is_fixed=kind not in _CHOOSING_NODES and not by_chance,
            is_parsed=bool(_PARSING.search(shown)),
        )
    if kind != "LogicalRelation":
        is_fixed = kind in _FIXED_LEAVES
        return Source(is_fixed=is_fixed, compares_as_spark=is_fixed or kind in _MEMORY_LEAVES)
    relation = node.relation()
    if relation.getClass().getSimpleName() != "HadoopFsRelation":
        return Source(is_fixed=False, compares_as_spark=False)
    name: str = relation.fileFormat().getClass().getSimpleName()
    found = _of_files(name.removesuffix("FileFormat").lower())
    is_table = node.catalogTable().isDefined()  # its files are listed again after an INSERT
    is_listed = relation.location().getClass().getSimpleName() == "InMemoryFileIndex"
    return found._replace(is_fixed=found.is_fixed and is_listed and not is_table)


def _messages(message: Any) -> Iterator[Any]:
    """Yield a message of Spark Connect's plan and all messages inside it."""
    yield message
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        several = not hasattr(value, "ListFields")
        parts = (value.values() if hasattr(value, "values") else value) if several else (value,)
        for part in parts:
            if hasattr(part, "ListFields"):
                yield from _messages(part)


def _of_message(message: Any) -> Source:
    match message.DESCRIPTOR.name:
        case "UnresolvedFunction" | "CallFunction":
            return _of_sql(f"{message.function_name}()")
        case "ExpressionString":
            return _of_sql(message.expression)
        case "CommonInlineUserDefinedFunction":
            return Source(is_fixed=bool(message.deterministic))
        case "Window":
            return Source(is_fixed=False)
        case "Relation":
            return _of_relation(message)
    return Source()


def _of_sql(text: str) -> Source:
    """Return the guarantees of an expression: functions of users may do anything."""
    called = {name.lower() for name in _CALLED.findall(text)}
    is_known = called <= _functions() | _WORDS
    return Source(
        is_fixed=is_known and not _RANDOM.search(text), is_parsed=bool(_PARSING.search(text))
    )


@cache
def _functions() -> frozenset[str]:
    """Return the names of Spark's own functions."""
    from pyspark.sql import functions

    return frozenset(name.lower() for name in dir(functions) if not name.startswith("_"))


def _of_relation(relation: Any) -> Source:
    kind = relation.WhichOneof("rel_type")
    if kind in _CHOOSING_RELATIONS:
        return Source(is_fixed=False)
    if kind != "read":
        inner = getattr(relation, kind)
        has_relation = any(
            one.DESCRIPTOR.name == "Relation" for one in _messages(inner) if one is not inner
        )
        is_known = has_relation or kind in _FIXED_RELATIONS
        return Source(is_fixed=is_known, compares_as_spark=is_known)
    read = relation.read
    if read.WhichOneof("read_type") != "data_source":
        return Source(is_fixed=False, compares_as_spark=False)
    found = _of_files(read.data_source.format.lower())
    return found._replace(
        is_fixed=found.is_fixed and not read.is_streaming and not read.data_source.predicates
    )
