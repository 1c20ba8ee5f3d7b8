"""Properties of the Spark servers that the other tests use."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F


def installed(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from importlib.util import find_spec

    for batch in batches:
        names = [name for name in ("pandas", "holdfast", "msgspec") if find_spec(name)]
        yield pa.RecordBatch.from_pydict({"names": [names] * batch.num_rows})


def test_a_session_computes_in_utc(spark: SparkSession) -> None:
    assert spark.range(10).agg(F.sum("id")).first() == (45,)
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"


@pytest.mark.full
def test_the_executors_of_the_cluster_have_no_holdfast(
    spark: SparkSession, request: pytest.FixtureRequest
) -> None:
    found = spark.range(1).mapInArrow(installed, "names array<string>").first()

    here = request.node.callspec.params["spark"] != "cluster"
    assert found == (["pandas", "holdfast", "msgspec"] if here else ["pandas"],)
