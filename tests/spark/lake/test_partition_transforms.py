"""Hidden partitions of Iceberg tables, whose values Spark computes."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest
from iceberg_appending import new_table
from icebergs import opened, stamp
from pyiceberg.partitioning import _to_partition_representation
from pyiceberg.transforms import parse_transform
from pyspark.sql import SparkSession

from holdfast.spark.lake.executor_files import write_files
from holdfast.spark.lake.partition_transforms import with_partitions

TIMES = """
    SELECT id, column1 AS value FROM VALUES
        (0, {0} '0001-01-01 00:00:00'), (1, {0} '1582-10-04 23:59:59.999999'),
        (2, {0} '1969-12-31 23:59:59.999999'), (3, {0} '1970-01-01 00:00:00'),
        (4, {0} '2026-03-29 02:30:00'), (5, {0} '9998-12-31 23:59:59.999999'), (6, NULL)
        AS given(id, column1)
"""
DATES = TIMES.replace(" 00:00:00", "").replace(" 23:59:59.999999", "").replace(" 02:30:00", "")
NUMBERS = "SELECT id, {0} AS value FROM range(-25, 25)"


@pytest.mark.parametrize("zone", ["UTC", "America/New_York"])
@pytest.mark.parametrize(
    ("rows", "transforms"),
    [
        (TIMES.format("TIMESTAMP"), ["year", "month", "day", "hour"]),
        (TIMES.format("TIMESTAMP_NTZ"), ["year", "month", "day", "hour"]),
        (DATES.format("DATE"), ["year", "month", "day"]),
        (NUMBERS.format("CAST(id AS INT)"), ["truncate[10]", "identity"]),
        (NUMBERS.format("id"), ["truncate[7]"]),
        (NUMBERS.format("CAST(id / 10 AS DECIMAL(9, 3))"), ["truncate[250]"]),
        (NUMBERS.format("concat('ü\U0001f600', id)"), ["truncate[1]", "truncate[3]"]),
    ],
)
def test_the_values_are_those_of_the_library(
    local_spark: SparkSession, tmp_path: Path, rows: str, transforms: list[str], zone: str
) -> None:
    local_spark.conf.set("spark.sql.session.timeZone", zone)
    try:
        df = local_spark.sql(rows).coalesce(1)
        table = new_table(tmp_path)
        for transform in transforms:
            if table.open() is None:
                table.create(df.schema, ())
            with opened(table).table.update_spec() as change:
                change.add_field("value", parse_transform(transform), transform)
        now = opened(table)
        partitioned, names = with_partitions(df, now.partition_by)
        files = write_files(partitioned, now.storage, "data/x", names, keep_partition_columns=False)
        now.append(files, stamp(1))
    finally:
        local_spark.conf.set("spark.sql.session.timeZone", "UTC")

    found = opened(table).table
    [manifest] = found.current_snapshot().manifests(found.io)  # type: ignore[union-attr]
    kind = found.schema().find_type("value")
    rows_in = 0
    for entry in manifest.fetch_manifest_entry(found.io):
        path = entry.data_file.file_path.removeprefix("file://")
        values = pq.read_table(path)["value"].to_pylist()
        rows_in += len(values)
        for value in values:
            plain = None if value is None else _to_partition_representation(kind, value)
            expected = [parse_transform(one).transform(kind)(plain) for one in transforms]
            assert list(entry.data_file.partition) == expected
    assert rows_in == df.count()
    assert len(found.scan().to_arrow()) == rows_in
