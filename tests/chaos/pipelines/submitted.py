"""Submitted application that records in a file that it works, once it has claimed the job. With
`spark`, it runs a Spark job, too."""

import sys
import time

from holdfast.spark.jobs.driver import driver

with driver() as job:
    with open(sys.argv[1], "a") as work:
        work.write(f"{job.id}\n")
    if sys.argv[2] == "spark":
        from pyspark.sql import SparkSession

        spark = SparkSession.builder.config("spark.ui.enabled", "false").getOrCreate()
        job.report(spark)
        job.task_store.set("rows", spark.range(0, 1000, 1, 2).count())
        spark.stop()
    else:
        time.sleep(1)
