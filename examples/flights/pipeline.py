"""Flights pipeline: ingest, clean and aggregate the delays of flights from New York on Spark.

    landing/date=2013-01-01/             CSV files, as they come in
    warehouse/raw/date=2013-01-01/       the same as Parquet, with types
    warehouse/clean/date=2013-01-01/     the flights that took place
    warehouse/delays/date=2013-01-01/    flights and delays of each carrier

Both directories are next to this file by default. The conf of a run can set others:

    holdfast run pipeline.py --conf '{"landing": "s3a://…", "warehouse": "s3a://…"}'

A run processes what is new, and a task that died resumes where it stopped:

- `ingest` records each day in its task store once the day is written; a retry does the rest.
- `clean` and `aggregate` read rows after the watermark of the asset that they write, up to an end
  that is fixed first. When they succeed, the watermark moves to that end.
- Every write replaces whole days, so that it is idempotent.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from holdfast.sdk import Asset, dag, task
from holdfast.spark import incremental

HERE = Path(__file__).parent
FLIGHT = """
    year INT, month INT, day INT,
    dep_time INT, sched_dep_time INT, dep_delay INT,
    arr_time INT, sched_arr_time INT, arr_delay INT,
    carrier STRING, flight INT, tailnum STRING, origin STRING, dest STRING,
    air_time INT, distance INT, hour INT, minute INT, time_hour TIMESTAMP
"""

raw = Asset("flights_raw")
clean_flights = Asset("flights_clean")
delays = Asset("flights_delays")


@dag(
    schedule=None,
    params={"landing": str(HERE / "landing"), "warehouse": str(HERE / "warehouse")},
    default_args={"retries": 3, "retry_delay": timedelta(seconds=2)},
    max_active_tasks=4,
)
def flights():
    @task.pyspark(inlets=[raw])
    def find_landed(spark, params, asset_store):
        """Return the days that have landed and are not ingested yet, by month."""
        # Spark reads no content of binary files unless it is selected.
        files = spark.read.format("binaryFile").load(params["landing"])
        landed = files.groupBy(F.date_format("date", "yyyy-MM").alias("month"))
        months = landed.agg(F.sort_array(F.collect_set("date"))).orderBy("month")
        found = []
        for month, dates in months.collect():
            ingested = asset_store.get(month, {})
            days = [day for day in map(str, dates) if day not in ingested]
            print(f"{month}: {len(days)} of {len(dates)} days are new")
            if days:
                found.append({"month": month, "days": days})
        return found

    @task.pyspark(outlets=[raw])
    def ingest(month, days, spark, params, task_store, asset_store):
        """Ingest the days of a month, one after the other."""
        done = {day: rows for day, rows in task_store.items() if day in days}
        print(f"{month}: {len(done)} of {len(days)} days were done by earlier attempts")
        for day in days:
            if day not in done:
                landed = f"{params['landing']}/date={day}"
                done[day] = ingest_day(spark, landed, f"{params['warehouse']}/raw/date={day}")
                task_store.set(day, done[day])
                print(f"{day}: {done[day]:,} flights")
        asset_store.set(month, asset_store.get(month, {}) | done, on_success=True)

    @task.pyspark(inlets=[raw], outlets=[clean_flights])
    def clean(spark, params, asset_store):
        """Select the flights that took place, and the columns that are needed."""
        source, target = f"{params['warehouse']}/raw", f"{params['warehouse']}/clean"
        return load_new(spark, source, target, took_place, asset_store[clean_flights])

    @task.pyspark(inlets=[clean_flights], outlets=[delays])
    def aggregate(spark, params, asset_store):
        """Sum the delays of each carrier on each day."""
        source, target = f"{params['warehouse']}/clean", f"{params['warehouse']}/delays"
        return load_new(spark, source, target, by_carrier, asset_store[delays])

    ingest.expand_kwargs(find_landed()) >> clean() >> aggregate()


def ingest_day(spark: SparkSession, landed: str, target: str) -> int:
    """Convert the landed files of a directory to Parquet, and replace the target directory."""
    seen = Observation()
    flights = spark.read.csv(landed, schema=FLIGHT, header=True, nullValue="NA")
    flights = flights.observe(seen, F.count("*").alias("rows"))
    flights.write.mode("overwrite").parquet(target)
    return seen.get["rows"]


def load_new(
    spark: SparkSession,
    source: str,
    target: str,
    transform: Callable[[DataFrame], DataFrame],
    store,
) -> dict[str, str | int | None]:
    """Load the days after the watermark in `store`, which moves if the task succeeds."""
    new = incremental(spark.read.parquet(source), store, cursor="date")

    def write(flights: DataFrame) -> None:
        days = transform(flights).write.partitionBy("date")
        days.option("partitionOverwriteMode", "dynamic").mode("overwrite").parquet(target)

    loaded = new.write(write)
    print(f"after {loaded.from_}, up to {loaded.to}: {loaded.rows:,} rows")
    since = None if loaded.from_ is None else str(loaded.from_)
    return {"since": since, "until": str(loaded.to), "rows": loaded.rows}


def took_place(flights: DataFrame) -> DataFrame:
    return flights.where("arr_delay IS NOT NULL").select(
        "date",
        (F.col("time_hour") + F.make_dt_interval(mins="minute")).alias("departure"),
        *("carrier", "flight", "tailnum", "origin", "dest", "distance", "dep_delay", "arr_delay"),
    )


def by_carrier(flights: DataFrame) -> DataFrame:
    # Partition by date only, so that a day is in one file.
    return (
        flights.repartition("date")
        .groupBy("date", "carrier")
        .agg(
            F.count("*").alias("flights"),
            F.count_if(F.col("arr_delay") >= 15).alias("late"),
            F.avg("arr_delay").alias("mean_delay"),
            F.max("arr_delay").alias("worst_delay"),
        )
    )


flights()
