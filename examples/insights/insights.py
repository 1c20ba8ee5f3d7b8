# %% [markdown]
# # Questions about pipelines, answered from the store
#
# Spark reads the state as tables and answers four questions. Run this file as a script
# (`python insights.py`), or cell by cell in an editor that supports `# %%`.

# %%
import os
import sys
from pathlib import Path

import matplotlib
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from sample import write_sample

from holdfast.settings import load
from holdfast.spark import register

matplotlib.use("agg")  # plots go to files
from matplotlib import pyplot as plt

os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
PLOTS = Path("insights")
PLOTS.mkdir(exist_ok=True)

# %% [markdown]
# Four weeks of a made-up shop. Leave this out to look at your own store.

# %%
write_sample(load().database_url)

# %%
spark = (
    SparkSession.builder.master("local[2]")
    .config("spark.sql.session.timeZone", "UTC")
    .config("spark.sql.shuffle.partitions", 2)
    .config("spark.ui.enabled", False)
    .getOrCreate()
)
register(spark)


def table(name: str) -> DataFrame:
    return spark.read.format("holdfast").option("table", name).load()


task_store, asset_store = table("task_store"), table("asset_store")
asset_history, task_instances = table("asset_history"), table("task_instances")
now = task_instances.agg(F.max("ended_at")).first()[0]
"""The end of the sample; for a live store, use `F.current_timestamp()`."""

# %% [markdown]
# ## Freshness of each asset

# %%
freshness = (
    asset_store.groupBy("asset")
    .agg(F.max("updated_at").alias("updated_at"), F.max("value").alias("watermark"))
    .withColumn("days_ago", F.datediff(F.lit(now), "updated_at"))
    .orderBy("days_ago", "asset")
)
freshness.show()

# %% [markdown]
# ## Slow tasks

# %%
minutes = (F.unix_timestamp("ended_at") - F.unix_timestamp("started_at")) / 60
slowest = (
    task_instances.where("state = 'success'")
    .groupBy("dag_id", "task_id")
    .agg(
        F.round(F.avg(minutes), 1).alias("average"),
        F.round(F.percentile_approx(minutes, 0.9), 1).alias("ninth_of_ten"),
        F.round(F.max(minutes), 1).alias("longest"),
    )
    .orderBy(F.desc("average"))
)
slowest.show()

bars = slowest.toPandas()
figure, axes = plt.subplots()
axes.barh(bars["task_id"], bars["longest"], color="lightsteelblue", label="longest")
axes.barh(bars["task_id"], bars["average"], color="steelblue", label="average")
axes.set(title="Minutes per task", xlabel="minutes")
axes.invert_yaxis()
axes.legend()
figure.savefig(PLOTS / "slowest-tasks.png")

# %% [markdown]
# ## Watermarks that do not move
#
# The history has each version with its value. A watermark may be written every night and still
# have the same value.

# %%
versions = Window.partitionBy("asset", "key").orderBy("version")
moved = (F.col("before").isNull()) | (F.col("value") != F.col("before"))
stuck = (
    asset_history.withColumn("before", F.lag("value").over(versions))
    .groupBy("asset", "key")
    .agg(
        F.max("updated_at").alias("written_at"),
        F.max(F.when(moved, F.col("updated_at"))).alias("moved_at"),
        F.max_by(F.get_json_object("value", "$"), "version").alias("stands_at"),
    )
    .withColumn("days_still", F.datediff(F.lit(now), "moved_at"))
    .where("days_still >= 3")
    .orderBy(F.desc("days_still"))
)
stuck.show()

# %% [markdown]
# ## Growth of the store

# %%
growth = (
    task_store.groupBy(F.to_date("updated_at").alias("day"))
    .agg(F.count("*").alias("entries"), F.sum(F.octet_length("value")).alias("bytes"))
    .withColumn("entries_so_far", F.sum("entries").over(Window.orderBy("day")))
    .orderBy("day")
)
growth.orderBy(F.desc("day")).show(3)

line = growth.toPandas()
figure, axes = plt.subplots()
axes.plot(line["day"], line["entries_so_far"], color="steelblue")
axes.fill_between(line["day"], line["entries_so_far"], color="lightsteelblue")
axes.set(title="Entries in the task store", ylim=0)
figure.autofmt_xdate()
figure.savefig(PLOTS / "growth.png")

# %%
spark.stop()
