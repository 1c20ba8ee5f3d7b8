"""Plot of the average delay of each carrier, week by week."""

from __future__ import annotations

from collections import Counter
from datetime import date
from pathlib import Path

from landing import package_data
from matplotlib.figure import Figure
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

WEEKS = 53


def draw(spark: SparkSession, delays: Path, file: Path) -> None:
    """Draw the table of delays to a PNG file."""
    airlines = spark.read.csv(str(package_data() / "airlines.csv"), header=True)
    weeks = (
        spark.read.parquet(str(delays))
        .groupBy("carrier", F.floor((F.dayofyear("date") - 1) / 7).alias("week"))
        .agg(F.sum("flights").alias("flights"), F.sum("late").alias("late"))
        .join(F.broadcast(airlines), "carrier")
        .collect()
    )
    flights: Counter[str] = Counter()
    for one in weeks:
        flights[one.name] += one.flights
    names = [name for name, _ in flights.most_common()]
    late = [[float("nan")] * WEEKS for _ in names]
    for one in weeks:
        late[names.index(one.name)][one.week] = 100 * one.late / one.flights

    figure = Figure(figsize=(12, 5), layout="constrained")
    axes = figure.subplots()
    image = axes.imshow(late, aspect="auto", cmap="inferno", vmin=0, vmax=60)
    months = [date(2013, month, 1) for month in range(1, 13)]
    axes.set_xticks(
        [(first - months[0]).days / 7 - 0.5 for first in months],
        [f"{first:%b}" for first in months],
    )
    axes.set_yticks(range(len(names)), [f"{name}  {flights[name]:,}" for name in names])
    axes.set_title("Flights from New York in 2013 that arrived 15 minutes late or more")
    figure.colorbar(image, label="% of a week's flights")
    figure.savefig(file, dpi=120)
