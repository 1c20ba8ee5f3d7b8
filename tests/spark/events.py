"""Small stream, and the query that writes it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from holdfast.accessor.asset_store import AssetStore
from holdfast.spark.lake.table import LakeTable
from holdfast.spark.streams.batch import Batch
from holdfast.spark.streams.streaming import foreach_batch


class Events(NamedTuple):
    """Files of events, one per batch, and the output of a query."""

    spark: SparkSession
    place: Path
    assets: AssetStore

    def land(self, *numbers: int) -> None:
        (self.place / "in").mkdir(exist_ok=True)
        for number in numbers:
            file = self.place / "in" / f"{number}.json"
            file.write_text(f'{{"number": {number}}}\n')
            os.utime(file, (number, number))

    def start(self, write: Callable[[DataFrame, Batch], object] | LakeTable) -> StreamingQuery:
        checkpoint = f"{self.place}/checkpoint"
        once = foreach_batch(self.assets, write, checkpoint=checkpoint)
        stream = self.spark.readStream.schema("number long").option("maxFilesPerTrigger", 1)
        writer = (
            stream.json(f"{self.place}/in")
            .writeStream.foreachBatch(once)
            .option("checkpointLocation", checkpoint)
            .trigger(availableNow=True)
        )
        for _ in range(4):
            try:
                return writer.start()
            except PySparkException as error:
                # Spark's server waits ten seconds for its Python process, whatever the load.
                if "failed to connect back" not in str(error):
                    raise
        return writer.start()

    def calls(self) -> list[int]:
        """Return the written batches, with repetitions."""
        return [int(line) for line in (self.place / "calls").read_text().split()]

    def written(self) -> list[tuple[int, int]]:
        rows = self.spark.read.parquet(f"{self.place}/out").collect()
        return sorted((row.batch, row.number) for row in rows)


def database(place: Path) -> str:
    return f"sqlite:///{place}/holdfast.db"


def writes(place: Path) -> Callable[[DataFrame, Batch], None]:
    def write(df: DataFrame, batch: Batch) -> None:
        df.write.mode("overwrite").parquet(f"{place}/out/{batch.directory}")
        with open(f"{place}/calls", "a") as calls:
            print(batch.id, file=calls)

    return write
