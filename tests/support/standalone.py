"""Real standalone cluster for tests, whose master can be killed and restarted."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path

import psutil

LOOPBACK = "127.0.0.1"
START_SECONDS = 60


class StandaloneCluster:
    """Master that persists its drivers, and a worker, which claims to have many cores."""

    def __init__(self, directory: Path, cores: int = 16) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._ports = _free_ports(3)
        port, rest, page = self._ports
        self.master = f"spark://{LOOPBACK}:{port}"
        self.rest = f"http://{LOOPBACK}:{rest}"
        """URL for submissions."""
        self.page = f"http://{LOOPBACK}:{page}"
        """URL of the master's status."""
        self._processes: list[subprocess.Popen[bytes]] = []
        self.start_master()
        self.start_worker(cores)

    def start_worker(self, cores: int, host: str = LOOPBACK) -> None:
        [page] = _free_ports(1)
        self._start(
            "org.apache.spark.deploy.worker.Worker",
            *("--webui-port", str(page), "--cores", str(cores), "--memory", "32g"),
            *("--work-dir", str(self._directory / f"work-{host}"), self.master),
            host=host,
        )
        _await_port(page)

    def start_master(self) -> None:
        port, rest, page = self._ports
        self._master = self._start(
            "org.apache.spark.deploy.master.Master",
            *("--port", str(port), "--webui-port", str(page)),
            options=f"-Dspark.master.rest.enabled=true -Dspark.master.rest.port={rest} "
            "-Dspark.deploy.recoveryMode=FILESYSTEM "
            f"-Dspark.deploy.recoveryDirectory={self._directory / 'recovery'}",
        )
        _await_port(rest)

    def kill_master(self) -> None:
        self._master.kill()
        self._master.wait()

    def close(self) -> None:
        """End it, with the drivers and executors that it has started."""
        found = [psutil.Process(one.pid) for one in self._processes if one.poll() is None]
        for process in [*found, *(child for one in found for child in one.children(True))]:
            if process.is_running():
                process.kill()
        for one in self._processes:
            one.wait()

    def _start(
        self, *command: str, host: str = LOOPBACK, options: str = ""
    ) -> subprocess.Popen[bytes]:
        package = find_spec("pyspark")
        assert package is not None
        assert package.origin is not None
        home = Path(package.origin).parent
        main, *arguments = command
        environment = os.environ | {
            "SPARK_HOME": str(home),
            "SPARK_LOCAL_IP": LOOPBACK,
            "SPARK_DAEMON_MEMORY": "512m",
            "SPARK_DAEMON_JAVA_OPTS": options,
            "PYSPARK_PYTHON": sys.executable,
        }
        with open(self._directory / f"{main.rpartition('.')[2]}.log", "ab") as output:
            process = subprocess.Popen(
                [home / "bin" / "spark-class", main, "--host", host, *arguments],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        self._processes.append(process)
        return process


@contextmanager
def standalone_cluster(directory: Path) -> Iterator[StandaloneCluster]:
    cluster = StandaloneCluster(directory)
    try:
        yield cluster
    finally:
        cluster.close()


def _free_ports(number: int) -> list[int]:
    probes = [socket.socket() for _ in range(number)]
    for probe in probes:
        probe.bind((LOOPBACK, 0))
    ports = [probe.getsockname()[1] for probe in probes]
    for probe in probes:
        probe.close()
    return ports


def _await_port(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with socket.socket() as probe:
            if probe.connect_ex((LOOPBACK, port)) == 0:
                return
        assert time.monotonic() < deadline, f"nothing listens on port {port}"
        time.sleep(0.05)
