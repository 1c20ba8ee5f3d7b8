"""Chunks that cost Spark some time; the first attempt is killed when half of them are done."""

import json
import os
import signal
from typing import Any
from urllib.request import urlopen

from pyspark.sql import DataFrame, SparkSession

from holdfast.accessor.task_store import TaskStore
from holdfast.sdk import dag, task
from holdfast.spark.checkpoints.chunks import write_chunks


@dag(schedule=None)
def killed_chunks() -> None:
    @task.pyspark(retries=1, retry_delay=0)
    def chunks(spark: SparkSession, task_store: TaskStore, ti: Any, dag_run: Any) -> float:
        conf = dag_run.conf

        def make(number: int) -> DataFrame:
            if conf["killed"] and ti.try_number == 1 and number == conf["chunks"] // 2:
                os.kill(os.getpid(), signal.SIGKILL)
            return hashed(spark, conf["rows"])

        hashed(spark, conf["rows"]).collect()  # so that both runs find Spark warm
        before = executor_seconds(spark)
        write_chunks(range(conf["chunks"]), task_store, conf["path"], make, key="chunks")
        return executor_seconds(spark) - before

    chunks()


def hashed(spark: SparkSession, rows: int) -> DataFrame:
    numbers = spark.range(0, rows, 1, 2).selectExpr("sha2(cast(id AS string), 256) AS digest")
    return numbers.groupBy(numbers.digest.substr(1, 2).alias("first")).count()


def executor_seconds(spark: SparkSession) -> float:
    """What the executors have run so far, for all tasks of this Spark."""
    api = f"http://127.0.0.1:{spark.conf.get('spark.ui.port')}/api/v1/applications"
    with urlopen(api) as answer:
        [application] = json.load(answer)
    with urlopen(f"{api}/{application['id']}/stages") as answer:
        stages = json.load(answer)
    return float(sum(stage["executorRunTime"] for stage in stages)) / 1000


killed_chunks()
