"""Faster start of Spark, which the tests start a hundred times: `python ready_spark.py FILE` writes
an archive of its Java classes, which a JVM maps instead of loading and verifying each."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark import SparkContext
from pyspark.sql import SparkSession

if TYPE_CHECKING:
    import pandas


def archive_classes(file: Path) -> None:
    """Run a JVM that archives the loaded classes when it ends."""
    draft = file.with_suffix(".draft")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["SPARK_TESTING"] = "1"  # a free port, as Spark Connect's own may be in use
    os.environ["PYSPARK_SUBMIT_ARGS"] = (
        f"--driver-java-options '-XX:TieredStopAtLevel=1 -XX:ArchiveClassesAtExit={draft} "
        "-Xlog:disable' "
        "--conf spark.connect.grpc.binding.address=127.0.0.1 "
        "--conf spark.sql.shuffle.partitions=2 --conf spark.log.level=ERROR pyspark-shell"
    )
    spark = SparkSession.builder.remote("local[2]").getOrCreate()
    use(spark)
    spark.stop()
    jvm: subprocess.Popen[bytes] = SparkContext._gateway.proc  # type: ignore[union-attr]
    jvm.communicate()
    draft.rename(file)


def use(spark: SparkSession) -> None:
    """Use Spark as the tests do."""
    numbers = spark.range(100).selectExpr("id", "id % 7 AS k", "timestamp_seconds(id) AS at")
    numbers.mapInPandas(same, numbers.schema).write.partitionBy("k").parquet("table")
    read = spark.read.parquet("table").where("k > 1 AND at > timestamp_seconds(3)")
    read.join(numbers.groupBy("k").count(), "k").dropDuplicates(["k"]).orderBy("k").collect()
    stream = spark.readStream.schema(read.schema).parquet("table").writeStream.format("json")
    query = stream.trigger(availableNow=True).option("checkpointLocation", "checkpoint")
    query.start("copy").awaitTermination()


def same(frames: Iterator[pandas.DataFrame]) -> Iterator[pandas.DataFrame]:
    yield from frames


if __name__ == "__main__":
    classes = Path(sys.argv[1]).absolute()
    with tempfile.TemporaryDirectory(prefix="holdfast-spark-") as directory:
        os.chdir(directory)
        archive_classes(classes)
