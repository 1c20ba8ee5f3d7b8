"""Format, schema and options of saved loads, so that they are read with their own columns and
types.

Files alone are not enough: Spark reads the partition `007` as the number 7, takes the columns of
one file for those of all, and reads a file of another format as rows of nulls.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from holdfast.errors import InvalidInput
from holdfast.spark.loads.text_formats import canonical

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

PREFIX: Final = "/saved/"
"""How loads of the watermark `orders` were saved is stored as `orders/saved/DIGEST`."""
NOT: Final = ""
"""The digest of a load that was not saved: `new.write` may have written directories."""
_INTEGERS: Final = ("byte", "short", "integer", "long")
_FLOATS: Final = ("float", "double")
TEXTS: Final = frozenset({"csv", "json", "text", "xml"})
"""Formats whose readers need the writer's options."""
WITH_SCHEMA: Final = TEXTS | {"orc", "parquet"}
"""Formats that are read with the saved columns and types. Others contain their own."""
_BY_PLACE: Final = frozenset({"csv", "text"})
"""Formats whose files do not name their columns, or whose readers ignore the names."""
_BY_SPELLING: Final = frozenset({"json", "xml"})
"""Formats in which names are case-sensitive."""
_NOT_KEPT: Final = frozenset(
    {
        "compression",
        "path",
        "paths",
        "basepath",
        "pathglobfilter",
        "recursivefilelookup",
        "modifiedbefore",
        "modifiedafter",
        "ignorecorruptfiles",
        "ignoremissingfiles",
    }
)
"""Options that a reader does not need, or that would hide files from it."""


class Saved(msgspec.Struct, frozen=True, omit_defaults=True):
    """The format, columns and options with which the files of a load were written."""

    format: str
    columns: list[tuple[str, Any]]
    """Names and types of all columns, in their order."""
    partitions: list[str]
    """The names of the columns that are in the names of directories."""
    options: dict[str, str]
    """The options that a reader needs."""
    quarantine: str = ""
    """The path of the files, if they hold quarantined rows."""

    @property
    def in_files(self) -> list[str]:
        return [name for name, _ in self.columns if name not in self.partitions]


def saved_as(
    schema: StructType, format: str, partitions: list[str], options: Mapping[str, str]
) -> Saved:
    """Return the description of files of rows with that schema, and options for their reader."""
    return Saved(
        format.lower(),
        [(field.name, field.dataType.jsonValue()) for field in schema.toNullable().fields],
        partitions,
        {name: value for name, value in options.items() if name not in _NOT_KEPT},
    )


def with_found(
    loads: Sequence[Saved],
    schema: StructType,
    format: str,
    directories: Collection[str],
    options: Mapping[str, str],
) -> list[Saved]:
    """Return the saved loads, and a description of what Spark infers from the files of others.

    Text does not contain all types: an inferred column that was also saved has the saved type.
    Columns of CSV without a header are the saved ones if there are as many.
    """
    known = {name: kind for load in loads for name, kind in load.columns}
    kinds = {field.name: field.dataType.jsonValue() for field in schema}
    partitions = [name for name in kinds if name in directories]
    if format in TEXTS:
        kinds = {name: known.get(name, kind) for name, kind in kinds.items()}
    kinds |= {name: known[name] for name in partitions if name in known}
    found = Saved(format, list(kinds.items()), partitions, {})
    if format not in WITH_SCHEMA:
        return [found]
    has_names = format not in _BY_PLACE or options.get("header", "").lower() == "true"
    if loads and not has_names and len(found.in_files) == len(loads[0].in_files):
        return [*loads]
    return [*loads, found]


def format_of(loads: Sequence[Saved], asked: str | None, where: str) -> str:
    """Return the format in which to read. Raise InvalidInput if loads have several and none is
    requested, or if none of them has the requested one."""
    formats = list(dict.fromkeys(load.format for load in loads)) or ["parquet"]
    if asked is not None and (not loads or asked.lower() in formats):
        return asked.lower()
    if asked is not None or len(formats) > 1:
        raise InvalidInput(
            f"loads of {where} were saved as {' and as '.join(formats)}"
            + (f", not as {asked}" if asked else ""),
            hint=f'give the format of those below the path: format="{formats[0]}"',
        )
    return formats[0]


def check_files(files: Iterable[str], format: str, options: Mapping[str, str], path: str) -> None:
    """Raise InvalidInput if files have the suffix of another format, and would be misread."""
    suffix = f".{options.get('extension', 'txt' if format == 'text' else format)}"
    for file in files:
        if suffix not in file.rpartition("/")[2]:
            raise InvalidInput(
                f"{path} has loads of several formats: {file} is not {format}",
                hint="read the directories of each format separately",
            )


def options_of(loads: Sequence[Saved], given: Mapping[str, str], where: str) -> dict[str, str]:
    """Return the options with which loads are read: those given, and those they were saved with.

    Raise InvalidInput if they were saved with different ones.
    """
    if loads and loads[0].format in TEXTS:
        given = canonical(given)
    found: dict[str, str | None] = {}
    for name in sorted({name for load in loads for name in load.options} - given.keys()):
        values = [load.options.get(name) for load in loads]
        if len(set(values)) > 1:
            raise InvalidInput(
                f"loads of {where} were saved with {name}="
                + " and ".join(dict.fromkeys(str(value) for value in values)),
                hint=f'read the directories of each kind separately, or give options={{"{name}": '
                "…} for all",
            )
        found[name] = values[0]
    return {**{name: value for name, value in found.items() if value is not None}, **given}


def in_utc(options: Mapping[str, str]) -> dict[str, str]:
    """Return the options with a time zone for times in text: not that of the session, which a
    reader need not share, and in which an hour may occur twice."""
    is_named = any(name.lower() == "timezone" for name in options)
    return dict(options) if is_named else {**options, "timeZone": "UTC"}


def schema_of(loads: Sequence[Saved], spark: SparkSession, where: str) -> StructType:
    """Return the schema with which these loads can be read together.

    Raise InvalidInput if a column was saved with types that have none in common.
    """
    from pyspark.sql.types import StructType

    if any(load.format in _BY_PLACE for load in loads):
        _check_places(loads, where)
    case_sensitive = str(spark.conf.get("spark.sql.caseSensitive")).lower() == "true"
    columns: dict[str, tuple[str, list[Any]]] = {}
    # Text has only the digits that a float needs, and read as a double it is another number.
    as_text = {name.lower() for load in loads for name in load.partitions}
    for load in loads:
        for name, kind in load.columns:
            known = name if case_sensitive else name.lower()
            former, kinds = columns.get(known, (name, []))
            if load.format in _BY_SPELLING and former != name:
                raise InvalidInput(
                    f"loads of {where} saved the column `{name}` also as `{former}`, and "
                    f"{load.format.upper()} is case-sensitive",
                    hint="read the directories of each spelling separately",
                )
            columns[known] = (name, [*kinds, kind])
            if load.format in TEXTS:
                as_text.add(name.lower())
    fields = [
        {
            "name": name,
            "type": _common(name, types, name.lower() in as_text, where),
            "nullable": True,
            "metadata": {},
        }
        for name, types in columns.values()
    ]
    return StructType.fromJson({"type": "struct", "fields": fields})


def _common(name: str, types: list[Any], as_text: bool, where: str) -> Any:
    """Return the type that can hold all values of these; raise InvalidInput if there is none."""
    from pyspark.sql.types import _parse_datatype_json_value

    distinct = [kind for at, kind in enumerate(types) if kind not in types[:at]]
    if len(distinct) == 1:
        return distinct[0]
    for ranks in (_INTEGERS,) if as_text else (_INTEGERS, _FLOATS):
        if all(kind in ranks for kind in distinct):
            return max(distinct, key=ranks.index)
    shown = " and as ".join(_parse_datatype_json_value(kind).simpleString() for kind in distinct)
    raise InvalidInput(
        f"loads of {where} saved the column `{name}` as {shown}",
        hint="read the directories of each type separately",
    )


def _check_places(loads: Sequence[Saved], where: str) -> None:
    """Raise InvalidInput unless files whose columns are identified by position have the same
    columns."""
    first = loads[0].in_files
    for load in loads[1:]:
        if load.in_files != first:
            raise InvalidInput(
                f"loads of {where} were saved as {load.format.upper()} with the columns "
                f"{', '.join(first)}, and with {', '.join(load.in_files)}: such files are read by "
                "column position",
                hint="read the directories of each kind separately",
            )
