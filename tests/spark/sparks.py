"""Spark servers of the tests, started once for all processes of a test run.

`python sparks.py KIND DIRECTORY OWNER` keeps one until the process OWNER has ended.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import re
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import msgspec
import psutil
from kept import kept_server

from holdfast.spark.session.address import SparkAddress

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

EXECUTOR_PACKAGES = ("numpy", "pandas", "pyarrow", "grpcio-status", "zstandard")


def bare_python(directory: Path) -> Path:
    """Return a Python with the requirements of PySpark on an executor, and without Holdfast."""
    venv.create(directory, with_pip=False, symlinks=True)
    [packages] = directory.glob("lib/python*/site-packages")
    for distribution in _with_requirements(EXECUTOR_PACKAGES):
        for top in {file.parts[0] for file in distribution.files or ()} - {"..", "__pycache__"}:
            target = packages / top
            if not target.exists():
                target.symlink_to(str(distribution.locate_file(top)))
    return directory / "bin" / "python"


def _with_requirements(names: Iterable[str]) -> list[importlib.metadata.Distribution]:
    wanted, found = list(names), {}
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = importlib.metadata.distribution(name)
            lines = found[name].requires or ()
            wanted += [re.split(r"[^\w.-]", line)[0] for line in lines if ";" not in line]
    return list(found.values())


CONF = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
}


@contextmanager
def connect(directory: Path) -> Iterator[SparkAddress]:
    """Start a Connect server on its own Spark."""
    with kept_server(directory, master="local[2,4]", conf=CONF) as kept:
        yield kept.address


@contextmanager
def cluster(directory: Path) -> Iterator[SparkAddress]:
    """Start a Connect server on a cluster whose executors have a Python without Holdfast."""
    from standalone import standalone_cluster

    python = bare_python(directory / "python")
    with standalone_cluster(directory / "cluster") as here:
        conf = CONF | {
            "spark.pyspark.python": str(python),
            "spark.executor.memory": "1g",
            "spark.cores.max": "2",
        }
        with kept_server(directory, master=here.master, conf=conf) as kept:
            yield kept.address


_keepers: list[subprocess.Popen[bytes]] = []


def shared(kind: str, directory: Path, owner: int) -> SparkAddress:
    """Return the address of the Spark of that kind; the first caller starts it."""
    place = directory / kind
    place.mkdir(parents=True, exist_ok=True)
    told = place / "address.json"
    with open(place / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not told.exists():
            with open(place / "keeper.log", "wb") as log:
                command = [sys.executable, __file__, kind, str(place), str(owner)]
                keeper = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    process_group=0,
                )
            _keepers.append(keeper)
            while not told.exists():
                assert keeper.poll() is None, (place / "keeper.log").read_text()
                time.sleep(0.05)
    return msgspec.json.decode(told.read_bytes(), type=SparkAddress)


@contextmanager
def session_on(
    kind: str, request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """Yield a session in this process, in a server, or on a cluster whose executors have a Python
    without Holdfast. Definitions of a test module are pickled by value with its functions, as those
    of a DAG file."""
    import pytest
    from pyspark import cloudpickle
    from pyspark.sql import SparkSession

    from holdfast.spark.session.session import connection_string

    cloudpickle.register_pickle_by_value(request.module)
    try:
        if kind == "local":
            yield request.getfixturevalue("local_spark")
            return
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SPARK_CONNECT_MODE_ENABLED", "1")
            address = connect_address(kind, tmp_path_factory)
            remote = connection_string(address, str(uuid4()))
            session = SparkSession.builder.remote(remote).create()
            yield session
            session.stop()
    finally:
        cloudpickle.unregister_pickle_by_value(request.module)


def connect_address(kind: str, tmp_path_factory: pytest.TempPathFactory) -> SparkAddress:
    """Return the address of the server of that kind, which all processes of a test run share."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    base = tmp_path_factory.getbasetemp()
    return shared(
        kind,
        (base.parent if worker else base) / "sparks",
        os.getppid() if worker else os.getpid(),
    )


def keep(kind: str, directory: Path, owner: int) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with {"connect": connect, "cluster": cluster}[kind](directory) as address:
        draft = directory / "address.draft"
        draft.write_bytes(msgspec.json.encode(address))
        draft.rename(directory / "address.json")
        while psutil.pid_exists(owner):
            time.sleep(0.5)


if __name__ == "__main__":
    # Not by PYTHONPATH, which the executors would have, too.
    sys.path.append(str(Path(__file__).parents[1] / "support"))
    keep(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
