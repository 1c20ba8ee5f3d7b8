"""Formats of text: how rows are written so that Spark reads the same ones, and what is refused.

Spark's own defaults lose text without a word: CSV trims it, ends rows at line breaks and takes
empty text for null.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import reduce
from operator import or_
from typing import TYPE_CHECKING, Final, NamedTuple

from holdfast.errors import InvalidInput
from holdfast.spark.loads.column import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType, StructType

_NULL: Final = "__HOLDFAST_NULL__"
"""What a reader of CSV takes for null besides an empty field, which CSV has for nulls only."""
_KEEPING: Final = {
    "csv": {
        "linesep": "\n",
        "ignoreleadingwhitespace": "false",
        "ignoretrailingwhitespace": "false",
    },
    "text": {"linesep": "\n"},
    "xml": {"ignoresurroundingspaces": "false"},
}
"""Options with which text is written and read as it is."""
_ALIASES: Final = {"delimiter": "sep", "charset": "encoding"}
_LOSING: Final = {
    "csv": {
        "multiline": "false",
        "ignoreleadingwhitespace": "true",
        "ignoretrailingwhitespace": "true",
        "quote": "",
    },
    "json": {"multiline": "true", "pretty": "true"},
    "text": {"wholetext": "true"},
    "xml": {"ignoresurroundingspaces": "true"},
}
"""Options with which Spark reads other rows than it wrote."""
_MARK: Final = "\ufeff"
"""A byte order mark, which readers skip at the beginning of a file."""
_NO_XML: Final = r"[^\t\n\r\x{20}-\x{D7FF}\x{E000}-\x{FFFD}\x{10000}-\x{10FFFF}]"
_LOST: Final = {
    "csv": "text that begins with a byte order mark, is no UTF-8 or not in the encoding=, or "
    "equals nullValue=; null in the only column, and in text with quoteAll=; empty text with "
    "emptyValue=; line breaks with a lineSep= of two characters; the first character of a sep= of "
    "several",
    "json": "text that is no UTF-8",
    "text": "null, line breaks (or lineSep=), and text that begins with a byte order mark",
    "xml": "control characters, text that is no UTF-8 or equals nullValue=, arrays that are empty, "
    "in arrays or with nulls, and maps with null values",
}


class TextFormat(NamedTuple):
    """A format of text, and the options of the author's, by their names in lower case."""

    name: str
    options: Mapping[str, str]

    @classmethod
    def of(cls, name: str, options: Mapping[str, str]) -> TextFormat:
        lower = {one.lower(): str(value) for one, value in options.items()}
        return cls(name, {_ALIASES.get(one, one): value for one, value in lower.items()})

    def check(self) -> None:
        """Raise InvalidInput for options with which other rows are read than were written."""
        for name, value in _LOSING[self.name].items():
            if self.options.get(name, "?").lower() == value:
                raise InvalidInput(
                    f"with {name}={value!r}, Spark would not read the rows from "
                    f"{self.name.upper()} again that it writes",
                    hint="leave the option out; one that is for readers only is given to "
                    "read_loads",
                )
        encoding = self.options.get("encoding", "UTF-8")
        if self.name in ("json", "xml") and encoding.upper() not in ("UTF-8", "UTF8"):
            raise InvalidInput(
                f"encoding is {encoding}, which Spark does not read from {self.name.upper()} again",
                hint="leave it out: the files are UTF-8",
            )
        lines = self.options.get("linesep", "\n")
        if self.name == "json" and not re.search(r"[\x00-\x1f]", lines):
            raise InvalidInput(
                f"lineSep is {lines!r}, which may be in the JSON of a row",
                hint="leave it out, or take a control character, which JSON escapes",
            )

    def for_writer(self) -> dict[str, str]:
        """Return the options to write with."""
        own: dict[str, str] = {}
        if self.name == "csv":
            quote = self.options.get("quote", '"')
            own = {"escape": quote, "emptyvalue": quote * 2}
        return {**_KEEPING.get(self.name, {}), **own, **self.options}

    def for_reader(self) -> dict[str, str]:
        """Return the options to read with."""
        own: dict[str, str] = {}
        if self.name == "csv":
            own = {"escape": self.options.get("quote", '"'), "multiline": "true"}
            own["nullvalue"] = _NULL
        return {**_KEEPING.get(self.name, {}), **own, **self.options}

    def unkept(self, name: str) -> str:
        """Return the message for a column with a value that is lost."""
        return f"`{name}` has a value that {self.name.upper()} does not keep"

    @property
    def hint(self) -> str:
        return f'use format="parquet", or replace what is lost: {_LOST[self.name]}'

    def kept(self, schema: StructType, names: Sequence[str]) -> dict[str, Column]:
        """Return the columns in files that may lose a value, so that writing it fails."""
        from pyspark.sql import functions as f

        columns = {}
        for name in names:
            value, kind = f.col(quoted(name)), schema[name].dataType
            lost = self._lost(value, kind)
            if self.name == "csv":
                lost += self._lost_as_null(value, is_alone=len(names) == 1)
            if lost:
                failure = f.raise_error(f.lit(self.unkept(name)))
                columns[name] = f.when(reduce(or_, lost), failure).otherwise(value)
        return columns

    def _lost(self, value: Column, kind: DataType) -> list[Column]:
        """Return conditions for values that are lost, at any depth."""
        from pyspark.sql import functions as f
        from pyspark.sql.types import ArrayType, MapType, StringType, StructType

        if isinstance(kind, StringType):
            return self._lost_text(value)
        if isinstance(kind, StructType):
            fields = [(value.getField(field.name), field.dataType) for field in kind]
            return [one for field in fields for one in self._lost(*field)]
        if isinstance(kind, MapType):
            keys = self._lost_items(f.map_keys(value), kind.keyType)
            return [*keys, *self._lost_items(f.map_values(value), kind.valueType)]
        if not isinstance(kind, ArrayType):
            return []
        if self.name != "xml":
            return self._lost_items(value, kind.elementType)
        if isinstance(kind.elementType, ArrayType):
            return [value.isNotNull()]
        return [f.size(value) == 0, *self._lost_items(value, kind.elementType)]

    def _lost_items(self, values: Column, kind: DataType) -> list[Column]:
        from pyspark.sql import functions as f

        def is_lost(one: Column) -> Column:
            return reduce(or_, self._lost(one, kind), one.isNull() & f.lit(self.name == "xml"))

        return [f.exists(values, is_lost)]

    def _lost_text(self, value: Column) -> list[Column]:
        from pyspark.sql import functions as f

        given = self.options
        if self.name == "text":
            lines = given.get("linesep", "\n")
            return [value.isNull(), value.contains(lines), value.startswith(_MARK)]
        lost = [~f.is_valid_utf8(value)]
        if self.name == "xml":
            lost.append(value.rlike(_NO_XML))
            lost += [value == f.lit(given["nullvalue"])] if "nullvalue" in given else []
        if self.name == "csv":
            lost.append(value.startswith(_MARK))
            separator = given.get("sep", ",").replace("\\t", "\t")
            if len(separator) > 1:
                lost.append(value.contains(separator[0]))
            if len(given.get("linesep", "\n")) > 1:
                lost.append(value.contains("\n"))
            if "emptyvalue" in given:
                lost.append(value == "")
            if given.get("quoteall", "").lower() == "true":
                lost.append(value.isNull())
            if outside := _outside(given.get("encoding", "UTF-8")):
                lost.append(value.rlike(outside))
        return lost

    def _lost_as_null(self, value: Column, *, is_alone: bool) -> list[Column]:
        """Return conditions for values of CSV that are read as null, and nulls that are not read:
        a line without anything is skipped."""
        from pyspark.sql import functions as f

        null = self.options.get("nullvalue", _NULL)
        is_skipped = is_alone and not self.options.get("nullvalue")
        lost = [value.cast("string") == f.lit(null)]
        return [*lost, value.isNull()] if is_skipped else lost


def _outside(encoding: str) -> str:
    """Return a pattern for characters that an encoding does not have; empty: it has all."""
    if encoding.upper().startswith("UTF"):
        return ""
    return r"[^\x00-\xFF]" if encoding.upper() == "ISO-8859-1" else r"[^\x00-\x7F]"
