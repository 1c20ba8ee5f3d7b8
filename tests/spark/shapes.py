"""Ways in which users write the rows of a load: each ends with all of them in one directory."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, NamedTuple
from uuid import uuid4

from pyspark.sql import DataFrame, Observation, SparkSession, Window
from pyspark.sql import functions as f

from holdfast.spark.loads.load import Load
from holdfast.spark.publication import manifest_of

COLUMNS = "id long, at timestamp"


class Writing(NamedTuple):
    """Arguments of a shape."""

    spark: SparkSession
    load: Load
    df: DataFrame
    """The rows that the function is given."""
    target: str
    """The directory to write."""
    spare: str
    """A directory for other sinks."""

    def save(self, df: DataFrame) -> None:
        df.write.mode("overwrite").parquet(self.target)

    def view(self) -> str:
        name = f"new_{uuid4().hex}"
        self.df.createOrReplaceTempView(name)
        return name

    def insert(self, query: str) -> None:
        """Insert the rows with SQL that needs no catalog."""
        into = f"insert overwrite directory '{self.target}' using parquet"
        self.spark.sql(f"{into} {query}")


Shape = Callable[[Writing], None]
SHAPES: dict[str, Shape] = {}


def shape(function: Shape) -> Shape:
    SHAPES[function.__name__] = function
    return function


@shape
def plain(w: Writing) -> None:
    w.save(w.df)


@shape
def view_and_insert(w: Writing) -> None:
    w.insert(f"select * from {w.view()}")


@shape
def is_empty_then_insert(w: Writing) -> None:
    if not w.df.isEmpty():
        w.insert(f"select * from {w.view()}")


@shape
def limited_count_then_insert(w: Writing) -> None:
    w.df.limit(1).count()
    w.insert(f"select * from {w.view()}")


@shape
def insert_then_first(w: Writing) -> None:
    w.insert(f"select * from {w.view()}")
    w.df.first()


@shape
def select_by_argument(w: Writing) -> None:
    w.save(w.spark.sql("select * from {rows}", rows=w.df))


@shape
def table_of_a_view(w: Writing) -> None:
    w.save(w.spark.table(w.view()))


@shape
def select_from_a_view(w: Writing) -> None:
    w.save(w.spark.sql(f"select * from {w.view()}"))


@shape
def view_of_the_load(w: Writing) -> None:
    w.insert(f"select * from {w.load.view('of_the_load')}")


@shape
def view_over_a_view(w: Writing) -> None:
    w.spark.sql(f"select * from {w.view()} where id % 2 = 0").createOrReplaceTempView("even")
    w.spark.sql(f"select * from {w.view()} where id % 2 != 0").createOrReplaceTempView("odd")
    w.insert("select * from even union all select * from odd")


@shape
def global_view(w: Writing) -> None:
    name = f"new_{uuid4().hex}"
    w.df.createOrReplaceGlobalTempView(name)
    w.save(w.spark.table(f"global_temp.{name}"))


@shape
def rows_of_the_load(w: Writing) -> None:
    w.save(w.load.df)


@shape
def exists_beside_it(w: Writing) -> None:
    view = w.view()
    w.insert(f"select * from {view} where exists (select 1 from {view})")


@shape
def cross_join_with_one_row(w: Writing) -> None:
    one = w.df.limit(1).select(f.lit(1).alias("one"))
    w.save(w.df.crossJoin(one).drop("one"))


@shape
def union_with_some_of_it(w: Writing) -> None:
    w.save(w.df.union(w.df.limit(2)).dropDuplicates())


@shape
def some_of_it_in_a_union(w: Writing) -> None:
    w.save(w.df.limit(2).union(w.df).dropDuplicates())


@shape
def cached(w: Writing) -> None:
    kept = w.df.cache()
    kept.count()
    w.save(kept)
    kept.unpersist()


@shape
def cached_and_cut_short(w: Writing) -> None:
    kept = w.df.persist()
    kept.first()
    w.save(kept)
    kept.unpersist()


@shape
def checkpointed_lazily(w: Writing) -> None:
    w.save(w.df.localCheckpoint(eager=False))


@shape
def checkpointed_at_once(w: Writing) -> None:
    w.save(w.df.localCheckpoint())


@shape
def mapped_in_pandas(w: Writing) -> None:
    w.save(w.df.mapInPandas(_same, COLUMNS))


@shape
def mapped_in_arrow(w: Writing) -> None:
    w.save(w.df.mapInArrow(_same, COLUMNS))


@shape
def grouped_in_pandas(w: Writing) -> None:
    w.save(w.df.groupBy("id").applyInPandas(lambda part: part, COLUMNS))


@shape
def through_pandas(w: Writing) -> None:
    w.save(w.spark.createDataFrame(w.df.toPandas(), COLUMNS))


@shape
def collected(w: Writing) -> None:
    w.save(w.spark.createDataFrame(w.df.collect(), COLUMNS))


@shape
def in_arrow(w: Writing) -> None:
    w.save(w.spark.createDataFrame(w.df.toArrow(), COLUMNS))


@shape
def iterated(w: Writing) -> None:
    w.save(w.spark.createDataFrame(list(w.df.toLocalIterator()), COLUMNS))


@shape
def each_partition_then_written(w: Writing) -> None:
    w.df.foreachPartition(_exhaust)
    w.save(w.df)


@shape
def each_row_then_written(w: Writing) -> None:
    w.df.foreach(lambda row: None)
    w.save(w.df)


@shape
def rdd(w: Writing) -> None:
    """Write through an RDD, which only classic Spark has."""
    if hasattr(type(w.df), "_jdf") or hasattr(w.df, "_jdf"):
        w.save(w.spark.createDataFrame(w.df.rdd.map(tuple), COLUMNS))
    else:
        w.save(w.df)


@shape
def looked_at_first(w: Writing) -> None:
    w.df.head(3), w.df.take(1), w.df.tail(1)
    w.df.show(2)
    w.df.describe().collect()
    w.save(w.df)


@shape
def repartitioned(w: Writing) -> None:
    w.save(w.df.repartition(3, "id"))


@shape
def in_one_file(w: Writing) -> None:
    w.save(w.df.coalesce(1))


@shape
def sorted_rows(w: Writing) -> None:
    w.save(w.df.orderBy("at", "id"))


@shape
def partitioned(w: Writing) -> None:
    parted = w.df.withColumn("part", f.col("id") % 2)
    parted.write.mode("overwrite").partitionBy("part").parquet(w.target)


@shape
def two_sinks(w: Writing) -> None:
    w.df.groupBy("id").count().write.mode("overwrite").parquet(w.spare)
    w.save(w.df)


@shape
def three_sinks_of_which_one_is_cut_short(w: Writing) -> None:
    w.df.limit(1).write.mode("overwrite").orc(w.spare)
    w.save(w.df)
    w.df.write.mode("overwrite").format("noop").save()


@shape
def a_sink_that_fails_and_is_tried_again(w: Writing) -> None:
    with suppress(Exception):
        w.save(w.df.withColumn("id", f.expr("raise_error('not today')").cast("long")))
    w.save(w.df)


@shape
def a_function_of_python_that_fails_and_is_left_out(w: Writing) -> None:
    with suppress(Exception):
        w.df.select(f.udf(lambda number: number // 0, "long")("id")).collect()
    w.save(w.df)


@shape
def a_mistake_that_is_caught(w: Writing) -> None:
    with suppress(Exception):
        w.df.select("no_such_column").collect()
    w.save(w.df)


@shape
def joined_with_itself(w: Writing) -> None:
    other = w.df.select(f.col("id").alias("i"), f.col("at").alias("a"))
    same = (f.col("id") == f.col("i")) & (f.col("at") == f.col("a"))
    w.save(w.df.join(other, same).select("id", "at"))


@shape
def semi_joined(w: Writing) -> None:
    w.save(w.df.join(w.df.select("id").distinct(), "id", "left_semi"))


@shape
def joined_with_a_small_table(w: Writing) -> None:
    numbers = w.spark.range(100).withColumnRenamed("id", "number")
    joined = w.df.join(f.broadcast(numbers), f.col("id") == f.col("number"), "left")
    w.save(joined.select("id", "at"))


@shape
def ranked(w: Writing) -> None:
    rank = f.row_number().over(Window.partitionBy("id", "at").orderBy("at"))
    w.save(w.df.withColumn("rank", rank).where("rank = 1").drop("rank"))


@shape
def grouped(w: Writing) -> None:
    w.save(w.df.groupBy("id", "at").agg(f.count("*").alias("n")).drop("n"))


@shape
def in_two_halves(w: Writing) -> None:
    w.save(w.df.where("id % 2 = 0"))
    w.df.where("id % 2 != 0").write.mode("append").parquet(w.target)


@shape
def in_two_threads(w: Writing) -> None:
    parts = [w.df.where("id % 2 = 0"), w.df.where("id % 2 != 0")]
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(lambda part: part.write.format("noop").mode("overwrite").save(), parts))
    w.save(parts[0].union(parts[1]))


@shape
def observed_by_its_author(w: Writing) -> None:
    seen = Observation()
    w.save(w.df.observe(seen, f.count("*").alias("rows")))
    seen.get["rows"]


@shape
def through_a_table(w: Writing) -> None:
    table = f"kept_{uuid4().hex}"
    w.df.write.saveAsTable(table)
    w.save(w.spark.table(table))
    w.spark.sql(f"drop table {table}")


@shape
def inserted_into_a_table(w: Writing) -> None:
    table = f"kept_{uuid4().hex}"
    w.spark.sql(f"create table {table} ({COLUMNS}) using parquet")
    w.df.write.insertInto(table)
    w.insert(f"select * from {table}")
    w.spark.sql(f"drop table {table}")


@shape
def table_as_select(w: Writing) -> None:
    table = f"kept_{uuid4().hex}"
    w.spark.sql(f"create table {table} using parquet as select * from {w.view()}")
    w.save(w.spark.table(table))
    w.spark.sql(f"drop table {table}")


@shape
def multi_insert(w: Writing) -> None:
    view = w.view()
    w.spark.sql(f"select id from {view} limit 1").collect()
    w.insert(f"with all_rows as (select * from {view}) select * from all_rows")


@shape
def limit_larger_than_all(w: Writing) -> None:
    w.save(w.df.limit(1_000_000))


@shape
def sampled_whole(w: Writing) -> None:
    w.save(w.df.sample(fraction=1.0))


def _same(parts: Iterator[Any]) -> Iterator[Any]:
    yield from parts


def _exhaust(rows: Iterator[Any]) -> None:
    for _ in rows:
        pass


def save(load: Load, root: str) -> None:
    """Save the load without a function, unless another shape has written something."""
    directory = f"{root}/{load.name}"
    if manifest_of(directory) is None:
        shutil.rmtree(directory, ignore_errors=True)
    load.save(root)


def sql(load: Load, root: str) -> None:
    load.sql(f"insert overwrite directory '{root}/{load.name}' using parquet select * from {{new}}")


WHOLE: dict[str, Callable[[Load, str], None]] = {"save": save, "sql": sql}
"""Ways that need no function."""


def write_in_shape(name: str, spark: SparkSession, load: Load, root: str, spare: str) -> None:
    """Write a load below `root` in the shape of that name."""
    if name in WHOLE:
        WHOLE[name](load, root)
        return
    target = f"{root}/{load.name}"
    load.write(lambda df: SHAPES[name](Writing(spark, load, df, target, f"{spare}/{name}")))


NAMES = [*SHAPES, *WHOLE]
