"""Spark server for the whole demo, so that a JVM is started and warmed up once.

Run as a program, it serves until its standard input ends.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from holdfast.errors import SparkUnavailable
from holdfast.runner.protocol.messages import SparkAddress, SparkStartup
from holdfast.spark.session.server import serve

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

CONF = {
    # The server lives for minutes: thorough JIT compilation would take longer than it saves.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseParallelGC",
    # On one machine, a Spark job with a task for each of 365 directories takes longer than `ls`.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
}


@contextmanager
def spark_server(directory: Path) -> Iterator[str]:
    """Yield the address of a server that runs until the end of the block, or of this process."""
    keeper = subprocess.Popen(
        [sys.executable, __file__, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    with keeper:
        assert keeper.stdout is not None
        address = keeper.stdout.readline().strip()
        if not address:
            raise SparkUnavailable("Spark did not start", hint=f"see the logs under {directory}")
        yield address


@contextmanager
def spark_session(remote: str) -> Iterator[SparkSession]:
    """Yield a session on a server, as this process's only one."""
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(remote).getOrCreate()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    try:
        yield session
    finally:
        session.stop()


def main(directory: str) -> None:
    Thread(target=end_with_input, daemon=True).start()
    serve(SparkStartup(master="", conf=CONF, directory=directory), tell)


def tell(at: SparkAddress) -> None:
    print(f"sc://{at.host}:{at.port}/;token={at.token}", flush=True)


def end_with_input() -> None:
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1])
