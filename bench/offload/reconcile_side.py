"""One of the two that reconcile, in a process of its own: `alone` or `spark`, and where.

Prints the seconds that Spark took to start, those of the work, the peak memory in MB, and how many
orphans there were.
"""

from __future__ import annotations

import json
import resource
import sqlite3
import sys
import time
from contextlib import closing
from datetime import timedelta
from pathlib import Path

from holdfast.model.value import reference_in
from holdfast.settings import Database, ObjectStore, Settings, Spark
from holdfast.stores.offload.objects.backend import ObjectStoreBackend


def storage(place: Path) -> ObjectStoreBackend:
    return ObjectStoreBackend(ObjectStore(url=f"file://{place}/objects"))


def database(place: Path) -> str:
    return f"sqlite:///{place}/holdfast.db"


def alone(place: Path) -> tuple[float, float, int]:
    """The listing, and for each object a look into the set of all references."""
    start = time.perf_counter()
    with closing(sqlite3.connect(place / "holdfast.db")) as connection:
        rows = connection.execute("SELECT value FROM hf_task_entry")
        references = {reference_in(value) for (value,) in rows}
    found = storage(place).list_objects()
    orphans = sum(stored.reference not in references for stored in found)
    return 0.0, time.perf_counter() - start, orphans


def on_spark(place: Path) -> tuple[float, float, int]:
    from holdfast.spark.reconcile.comparison import Comparison
    from holdfast.spark.session.maintenance import maintenance_session
    from holdfast.spark.source.registration import register

    url = database(place)
    settings = Settings(database=Database(url=url), spark=Spark(conf={"spark.driver.memory": "2g"}))
    start = time.perf_counter()
    with maintenance_session(settings) as spark:
        started = time.perf_counter()
        register(spark, url)
        report = str(place / "report")
        comparison = Comparison(spark, storage(place), report, timedelta(0))
        comparison.list_objects()
        comparison.read_references()
        orphans = comparison.compare().orphan.objects
        return started - start, time.perf_counter() - started, orphans


def main() -> None:
    side, place = sys.argv[1:]
    start, seconds, orphans = {"alone": alone, "spark": on_spark}[side](Path(place))
    kilobytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(json.dumps((start, seconds, kilobytes / 1024, orphans)))


if __name__ == "__main__":
    main()
