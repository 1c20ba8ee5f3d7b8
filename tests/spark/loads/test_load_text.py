"""Round trips of text in files of every format: read as it was saved, or refused on write."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from loading import connection
from pyspark.sql import SparkSession

from holdfast import Connection
from holdfast.errors import InvalidInput
from holdfast.spark.loads.directory_reader import read_loads
from holdfast.spark.loads.incremental import incremental

BREAKS = ["\n", "\r", "\r\n", "a\nb", "a\rb", "a\r\nb", 'a,"b"\n,c', " \n "]
BLANKS = ["", " ", " a ", "\t", "\ta\t", "\x0b", "a\x0c", "\u2028", "\x85"]
QUOTES = [
    '"',
    '""',
    'a"b',
    '"a"',
    '"a',
    'a"',
    "\\",
    "a\\",
    '\\"',
    'a\\"b',
    '"\\',
    "\\n",
    "'",
    "'a'",
]
SIGNS = [",", ",a", "a,b", ";", "|", "a|", "||", "#", "#a", "-", "-1", "null", "NULL", "NaN"]
OTHERS = ["a", "ä€😀", "\x00", "a\x00b", "\x01", "\x1a", "a\ufeff", "\x7f", "<a>&amp;]]>", "</row>"]
MARKS = ["\ufeff", "\ufeffa"]
FEW = [*BREAKS, *BLANKS, *QUOTES, *SIGNS, *OTHERS]
REFUSED = "cannot represent|cannot read these rows|Spark reads back"
SCHEMA = "v string, w string, n int, p int, at long"


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Connection]:
    with connection(tmp_path) as opened:
        yield opened


class Trip:
    """Saves rows and reads them again, each time for another asset."""

    def __init__(self, spark: SparkSession, store: Connection, directory: Path) -> None:
        self._spark, self._store, self._directory = spark, store, directory
        self._trips = 0

    def rows(self, rows: list[Any], schema: str, output: dict[str, Any]) -> list[Any]:
        self._trips += 1
        orders = self._store.asset_store(name=f"orders{self._trips}", declare=True)
        path = str(self._directory / f"out{self._trips}")
        source = self._spark.createDataFrame(rows, schema).coalesce(1)
        incremental(source, orders, cursor="at").save(path, **output)
        found = read_loads(self._spark, orders, path).drop("load")
        read = [tuple(row) for row in found.collect()]
        assert found.count() == len(read)
        assert found.select("v").distinct().count() == len({row[0] for row in read})
        return read

    def refuses(self, row: Any, schema: str, output: dict[str, Any]) -> bool:
        with pytest.raises(InvalidInput, match=REFUSED) as error:
            self.rows([row], schema, output)
        return 'use format="parquet"' in str(error.value.hint)

    def keeps(
        self,
        values: list[str | None],
        output: dict[str, Any],
        *,
        but: list[str | None],
        number: int | None = None,
    ) -> bool:
        """Return whether all these are read as they were saved, except for refused ones."""
        rows = [(one, one, number, at % 2, 1) for at, one in enumerate(values) if one not in but]
        read = Counter(self.rows(rows, SCHEMA, output))
        return read == Counter(rows) and all(
            self.refuses((one, one, number, 1, 1), SCHEMA, output) for one in but
        )


@pytest.fixture
def trip(classic_spark: SparkSession, store: Connection, tmp_path: Path) -> Trip:
    return Trip(classic_spark, store, tmp_path)


@pytest.mark.full
@pytest.mark.parametrize("partition_by", [None, "p", ["n", "p", "at"]])
@pytest.mark.parametrize("header", ["true", "false"])
def test_text_in_csv_is_read_as_it_was_saved(
    trip: Trip, header: str, partition_by: str | None
) -> None:
    output = {"format": "csv", "partition_by": partition_by, "options": {"header": header}}

    marks = [] if header == "true" else MARKS  # at the start of a file, they are skipped
    lost = [*marks, "__HOLDFAST_NULL__"]
    assert trip.keeps([None, *FEW, *lost], output, but=lost)


@pytest.mark.full
@pytest.mark.parametrize("header", ["true", "false"])
@pytest.mark.parametrize("kind", ["string", "int"])
def test_null_in_the_only_column_of_csv_is_refused(trip: Trip, header: str, kind: str) -> None:
    output = {"format": "csv", "partition_by": "at", "options": {"header": header}}

    assert trip.refuses((None, 1), f"v {kind}, at long", output)
    null = {**output, "options": {"header": header, "nullValue": "NULL"}}
    assert trip.rows([(None, 1)], f"v {kind}, at long", null) == [(None, 1)]


@pytest.mark.full
@pytest.mark.parametrize("value", ["", " ", "\t", '"', "\n"])
def test_text_in_the_only_column_of_csv_is_read_as_it_was_saved(trip: Trip, value: str) -> None:
    output = {"format": "csv", "partition_by": "at"}

    assert trip.rows([(value, 1)], "v string, at long", output) == [(value, 1)]


@pytest.mark.full
@pytest.mark.parametrize(
    ("options", "lost"),
    [
        ({"sep": "\t"}, []),
        ({"delimiter": ";"}, []),
        ({"sep": "\\t"}, []),
        ({"sep": " "}, []),
        ({"sep": "||"}, ["|", "a|"]),
        ({"quote": "'"}, []),
        ({"quote": "'", "escape": "\\"}, []),
        ({"escape": "\\"}, []),
        ({"comment": "#"}, []),
        ({"nullValue": "NULL"}, ["NULL"]),
        ({"nullValue": "-1"}, ["-1"]),
        ({"nullValue": ""}, [""]),
        ({"emptyValue": "E"}, [""]),
        ({"quoteAll": "true"}, [None]),
        ({"lineSep": "\r"}, []),
        ({"lineSep": "\r\n"}, ["\n", "\r\n", "a\nb", "a\r\nb", 'a,"b"\n,c', " \n "]),
        ({"encoding": "ISO-8859-1"}, ["\u2028", "ä€😀", "a\ufeff"]),
        ({"charset": "US-ASCII"}, ["\u2028", "\x85", "ä€😀", "a\ufeff"]),
        ({"encoding": "UTF-16LE"}, []),
    ],
    ids=str,
)
def test_text_in_csv_is_read_with_the_options_of_its_author_or_refused(
    trip: Trip, options: dict[str, str], lost: list[str | None]
) -> None:
    number = 7 if "quoteAll" in options else None
    output = {"format": "csv", "options": options}
    assert trip.keeps([None, *FEW], output, but=lost, number=number)


@pytest.mark.full
def test_a_number_that_stands_for_null_is_refused(trip: Trip) -> None:
    output = {"format": "csv", "options": {"nullValue": "-1"}}

    assert trip.refuses((-1, 1), "v int, at long", output)
    assert trip.rows([(None, 1)], "v int, at long", output) == [(None, 1)]


@pytest.mark.full
def test_rows_of_nulls_between_tabs_are_read(trip: Trip) -> None:
    output = {"format": "csv", "partition_by": "at", "options": {"sep": "\t"}}

    assert trip.rows([(None, None, 1)], "v int, w int, at long", output) == [(None, None, 1)]


@pytest.mark.parametrize("partition_by", [None, "p"])
def test_text_in_json_is_read_as_it_was_saved(trip: Trip, partition_by: str | None) -> None:
    output = {"format": "json", "partition_by": partition_by}

    assert trip.keeps([None, *FEW, *MARKS], output, but=[])


@pytest.mark.full
@pytest.mark.parametrize("partition_by", [None, "p"])
def test_text_in_xml_is_read_as_it_was_saved_or_refused(
    trip: Trip, partition_by: str | None
) -> None:
    output = {"format": "xml", "partition_by": partition_by, "options": {"rowTag": "row"}}
    lost = ["\x0b", "a\x0c", "\x00", "a\x00b", "\x01", "\x1a", "\ufffe"]

    assert trip.keeps([None, *FEW, *MARKS, "\ufffe"], output, but=lost)


@pytest.mark.full
def test_lines_of_text_are_read_as_they_were_saved_or_refused(trip: Trip) -> None:
    output = {"format": "text", "partition_by": "at"}
    rows = [(value, 1) for value in FEW if "\n" not in value]

    assert Counter(trip.rows(rows, "v string, at long", output)) == Counter(rows)
    for value in (None, "\n", "a\r\nb", *MARKS):
        assert trip.refuses((value, 1), "v string, at long", output)


@pytest.mark.full
@pytest.mark.parametrize("format", ["csv", "json", "xml"])
def test_text_that_is_no_utf_8_is_refused(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, format: str
) -> None:
    source = classic_spark.sql("SELECT 1 AS at, CAST(X'61ff' AS STRING) AS v")
    orders = store.asset_store(name="orders", declare=True)

    with pytest.raises(InvalidInput, match=REFUSED):
        options = {"rowTag": "row"}
        incremental(source, orders, cursor="at").save(
            str(tmp_path / "out"), format=format, options=options
        )


@pytest.mark.full
@pytest.mark.parametrize(
    ("value", "is_kept"),
    [
        ("array(' a ', '')", True),
        ("map('k', ' a ')", True),
        ("named_struct('s', ' a ', 't', array(1, 2))", True),
        ("CAST(NULL AS array<string>)", True),
        ("array('a', NULL)", False),
        ("CAST(array() AS array<string>)", False),
        ("array(array('a'))", False),
        ("map('k', CAST(NULL AS string))", False),
        ("named_struct('s', array('a', NULL))", False),
        ("array(named_struct('s', '\\u0001'))", False),
    ],
)
def test_nested_values_in_xml_are_read_as_they_were_saved_or_refused(
    classic_spark: SparkSession, store: Connection, tmp_path: Path, value: str, is_kept: bool
) -> None:
    source = classic_spark.sql(f"SELECT 1 AS at, {value} AS v")
    orders, out = store.asset_store(name="orders", declare=True), str(tmp_path / "out")
    load = incremental(source, orders, cursor="at")

    if is_kept:
        load.save(out, format="xml", options={"rowTag": "row"})
        assert read_loads(classic_spark, orders, out).drop("load").collect() == source.collect()
    else:
        with pytest.raises(InvalidInput, match=REFUSED):
            load.save(out, format="xml", options={"rowTag": "row"})
