"""Two tasks with Spark, which tell how old their process was at their first job."""

import os
import time
from pathlib import Path

from pyspark.sql import SparkSession

from holdfast.sdk import dag, task


def age() -> float:
    """Seconds since this process began, to a hundredth. It counts from the machine's start, which
    psutil knows to the second only."""
    fields = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
    began = int(fields[19]) / os.sysconf("SC_CLK_TCK")
    return time.clock_gettime(time.CLOCK_BOOTTIME) - began


def first_job(spark: SparkSession) -> dict[str, float]:
    before = age()
    spark.range(1000).count()
    return {"before": before, "after": age()}


@dag(schedule=None)
def spark_tasks() -> None:
    @task.pyspark
    def first(spark: SparkSession) -> dict[str, float]:
        return first_job(spark)

    @task.pyspark
    def second(spark: SparkSession) -> dict[str, float]:
        return first_job(spark)

    first() >> second()


spark_tasks()
