"""Land all flights of 2013 where the pipeline of the demo looks for them."""

import sys
from pathlib import Path

from pyspark.sql import SparkSession

from bench.size import SIZE
from holdfast.sdk import dag, task

sys.path.append(str(Path(__file__).parents[3] / "examples" / "flights"))
from landing import land, unpack  # type: ignore[import-not-found]


@dag(schedule=None)
def land_flights() -> None:
    @task.pyspark
    def land_all(spark: SparkSession, params: dict[str, str]) -> None:
        landing = Path(params["landing"])
        land(spark, unpack(landing.parent), landing, SIZE.of("month = 1", "true", "true"))

    land_all()


land_flights()
