"""The Sparks that tests run on, started once for all processes of a test run.

`python sparks.py KIND DIRECTORY OWNER` keeps one until the process OWNER has ended.
"""

from __future__ import annotations

import fcntl
import importlib.metadata
import os
import re
import signal
import socket
import subprocess
import sys
import time
import venv
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import msgspec
import psutil

from holdfast.runner.messages import SparkAddress

LOOPBACK = "127.0.0.1"
START_SECONDS = 60
EXECUTOR_PACKAGES = ("numpy", "pandas", "pyarrow", "grpcio-status", "zstandard")


@dataclass
class Standalone:
    """A master and a worker."""

    master: str
    """Its `spark://` address."""
    rest: str
    """Where applications are submitted."""
    page: str
    """Where the master tells what it has."""


@contextmanager
def standalone(directory: Path) -> Iterator[Standalone]:
    """A real cluster of one worker with two cores, until the end of the block."""
    directory.mkdir(parents=True, exist_ok=True)
    master, rest, page, worker = free_ports(4)
    cluster = Standalone(
        f"spark://{LOOPBACK}:{master}", f"http://{LOOPBACK}:{rest}", f"http://{LOOPBACK}:{page}"
    )
    where = ("--host", LOOPBACK)
    first = _spark_class(
        directory / "master",
        "org.apache.spark.deploy.master.Master",
        *(*where, "--port", str(master), "--webui-port", str(page)),
        options=f"-Dspark.master.rest.enabled=true -Dspark.master.rest.port={rest}",
    )
    try:
        await_port(rest)
        second = _spark_class(
            directory / "worker",
            "org.apache.spark.deploy.worker.Worker",
            *(*where, "--webui-port", str(worker), "--cores", "2", "--memory", "4g"),
            *("--work-dir", str(directory / "work"), cluster.master),
        )
        try:
            await_port(worker)
            yield cluster
        finally:
            _end(second)
    finally:
        _end(first)


def _spark_class(log: Path, *command: str, options: str = "") -> subprocess.Popen[bytes]:
    package = find_spec("pyspark")
    assert package is not None
    assert package.origin is not None
    home = Path(package.origin).parent
    environment = os.environ | {
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_DAEMON_JAVA_OPTS": options,
        "SPARK_DAEMON_MEMORY": "512m",
    }
    with open(f"{log}.log", "wb") as output:
        return subprocess.Popen(
            [home / "bin" / "spark-class", *command],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )


def _end(process: subprocess.Popen[bytes]) -> None:
    """It, and the drivers and executors that it has started."""
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.wait()
    for child in children:
        if child.is_running():
            child.kill()
    psutil.wait_procs(children, timeout=10)


def bare_python(directory: Path) -> Path:
    """A Python with what PySpark needs on an executor, and nothing of ours."""
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


def free_ports(number: int) -> list[int]:
    probes = [socket.socket() for _ in range(number)]
    for probe in probes:
        probe.bind((LOOPBACK, 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def await_port(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with socket.socket() as probe:
            if probe.connect_ex((LOOPBACK, port)) == 0:
                return
        assert time.monotonic() < deadline, f"nothing listens on port {port}"
        time.sleep(0.05)


CONF = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.default.parallelism": "2",
}


@contextmanager
def connect(directory: Path) -> Iterator[SparkAddress]:
    """A Connect server on a Spark of its own."""
    from kept import kept_server

    with kept_server(directory, master="local[2,4]", conf=CONF) as kept:
        yield kept.address


@contextmanager
def cluster(directory: Path) -> Iterator[SparkAddress]:
    """A Connect server whose executors are a cluster's, with a Python that has nothing of ours."""
    from kept import kept_server

    python = bare_python(directory / "python")
    with standalone(directory / "cluster") as here:
        conf = CONF | {"spark.pyspark.python": str(python), "spark.executor.memory": "1g"}
        with kept_server(directory, master=here.master, conf=conf) as kept:
            yield kept.address


_keepers: list[subprocess.Popen[bytes]] = []


def shared(kind: str, directory: Path, owner: int) -> SparkAddress:
    """The address of the Spark of that kind; whoever asks first starts it."""
    place = directory / kind
    place.mkdir(parents=True, exist_ok=True)
    told = place / "address.json"
    with open(place / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not told.exists():
            with open(place / "keeper.log", "wb") as log:
                command = [sys.executable, __file__, kind, str(place), str(owner)]
                keeper = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, process_group=0
                )
            _keepers.append(keeper)
            while not told.exists():
                assert keeper.poll() is None, (place / "keeper.log").read_text()
                time.sleep(0.05)
    return msgspec.json.decode(told.read_bytes(), type=SparkAddress)


def keep(kind: str, directory: Path, owner: int) -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit())
    with {"connect": connect, "cluster": cluster}[kind](directory) as address:
        draft = directory / "address.draft"
        draft.write_bytes(msgspec.json.encode(address))
        draft.rename(directory / "address.json")
        while psutil.pid_exists(owner):
            time.sleep(0.5)


if __name__ == "__main__":
    keep(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]))
