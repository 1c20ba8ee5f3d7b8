"""A Spark session for a single command, in which no tasks run."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import SparkUnavailable
from holdfast.settings import Settings
from holdfast.spark.session.address import CONNECT_VARIABLES
from holdfast.spark.session.check import check_java, check_master, check_packages

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@contextmanager
def maintenance_session(settings: Settings) -> Iterator[SparkSession]:
    """Yield a session on the configured master, with the configured conf; stop it at the end.

    A configured Spark Connect server is not used: it is for tasks, and its workers need not have
    Holdfast, nor reach the database. Spark logs to a temporary file; SparkUnavailable shows its
    last lines if Spark does not start.
    """
    check_packages()
    check_java()
    check_master(settings.spark.master)
    from pyspark.sql import SparkSession

    with tempfile.TemporaryDirectory(prefix="holdfast-spark-") as name:
        directory = Path(name)
        conf = _conf(settings, directory)
        local = conf["spark.master"].startswith("local")
        for name in CONNECT_VARIABLES:
            os.environ.pop(name, None)
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        if local:
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        log = directory / "spark.log"
        try:
            with _stderr_to(log):
                session = SparkSession.builder.config(map=conf).getOrCreate()
        except Exception as error:
            from holdfast.spark.session.server import last_lines

            output = last_lines(log) or str(error).partition("\n")[0]
            raise SparkUnavailable(
                f"Spark failed to start on {conf['spark.master']}:\n{output}",
                hint="see [spark] master and conf in `holdfast config list`",
            ) from error
        try:
            yield session
        finally:
            session.stop()


def _conf(settings: Settings, directory: Path) -> dict[str, Any]:
    options = [f'"-Dderby.system.home={directory}"']
    given = dict(settings.spark.conf)
    options.append(given.pop("spark.driver.extraJavaOptions", ""))
    return {
        "spark.app.name": "holdfast",
        "spark.master": settings.spark.master or "local[*]",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "scratch"),
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        **given,
        "spark.driver.extraJavaOptions": " ".join(options).strip(),
    }


@contextmanager
def _stderr_to(file: Path) -> Iterator[None]:
    """Redirect stderr to a file. Processes started in the block write there as long as they
    live."""
    sys.stderr.flush()
    before = os.dup(2)
    with open(file, "wb") as output:
        os.dup2(output.fileno(), 2)
    try:
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)
