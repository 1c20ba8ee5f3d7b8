"""Spark servers of a run: start, end and leftovers."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import attempt
import psutil
import pyspark
import pytest
from kept import Kept, await_end, await_true, kept_server, start_keeper

from holdfast.process import identify
from holdfast.spark.session import server
from holdfast.spark.session.address import SparkStartup

LOOPBACK = "127.0.0.1"
HOLD = """
import fcntl, os, sys, time
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(60)
"""


def lines(directory: Path) -> list[str]:
    return [line for part in directory.glob("part-*") for line in part.read_text().splitlines()]


def free_port() -> int:
    with socket.socket() as one:
        one.bind((LOOPBACK, 0))
        return int(one.getsockname()[1])


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((LOOPBACK, port)) == 0


@contextmanager
def daemon(name: str, *arguments: str, log: Path) -> Iterator[None]:
    """Run a process of a Spark cluster until the end of the block."""
    home = Path(pyspark.__file__).parent
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [home / "bin" / "spark-class", name, *arguments],
            stdout=output,
            stderr=output,
            env=os.environ | {"SPARK_HOME": str(home), "SPARK_LOCAL_IP": LOOPBACK},
        )
    started = [psutil.Process(process.pid)]
    try:
        yield
    finally:
        started += started[0].children(recursive=True)
        process.terminate()
        process.wait()
        assert await_end(started) == []


@contextmanager
def cluster(directory: Path) -> Iterator[str]:
    """Run a master and a worker; yield the master's address."""
    port = free_port()
    master = f"spark://{LOOPBACK}:{port}"
    deploy = "org.apache.spark.deploy"
    here = ("--host", LOOPBACK, "--webui-port", "0")
    with ExitStack() as stack:
        stack.enter_context(
            daemon(f"{deploy}.master.Master", *here, "-p", str(port), log=directory / "master.log")
        )
        await_true(lambda: listens(port))
        work = ("-c", "1", "-m", "1g", "-d", str(directory / "work"), master)
        stack.enter_context(
            daemon(f"{deploy}.worker.Worker", *here, *work, log=directory / "worker.log")
        )
        yield master


@pytest.mark.full
def test_a_cluster_is_reached_through_its_master(
    tmp_path: Path, in_process: Callable[..., Any]
) -> None:
    with cluster(tmp_path) as master, kept_server(tmp_path, master=master) as server:
        in_process(attempt.write_in_python, server.address, "rows")

    assert lines(tmp_path / "rows") == [sys.executable] * 4


def test_nothing_of_a_server_outlives_its_keeper(
    tmp_path: Path, in_process: Callable[..., Any], forking: ForkServerContext
) -> None:
    begun = tmp_path / "begun"

    with (
        kept_server(tmp_path, conf={"spark.app.name": "ours"}) as server,
        ProcessPoolExecutor(1, mp_context=forking) as pool,
    ):
        in_process(attempt.write_in_python, server.address, "rows")
        told = pool.submit(attempt.lose_spark, server.address, begun)
        await_true(begun.exists)
        processes = server.processes()
        commands = [process.as_dict(["cmdline"], ad_value=[])["cmdline"] for process in processes]
        server.keeper.kill()
        killed = time.monotonic()

        assert any("pyspark.daemon" in command for command in commands)
        assert await_end(processes) == []
        assert told.result(timeout=60) - killed < 5

    begun.unlink()
    (place,) = tmp_path.glob("server-*")
    assert "Submitted application: ours" in (place / "spark.log").read_text()
    assert not (place / "spark.properties").exists()
    assert {path.name for path in tmp_path.iterdir()} == {place.name, "rows"}
    assert len(lines(tmp_path / "rows")) == 4


def test_the_token_and_the_settings_are_not_on_the_command_line(spark_server: Kept) -> None:
    (server, *_) = spark_server.processes()

    assert spark_server.address.token
    assert spark_server.address.token not in " ".join(server.cmdline())
    assert server.environ()["SPARK_CONNECT_AUTHENTICATE_TOKEN"] == spark_server.address.token


def test_a_server_listens_for_this_machine_only(spark_server: Kept) -> None:
    (server, *_) = spark_server.processes()

    listening = [one for one in server.net_connections() if one.status == psutil.CONN_LISTEN]

    assert len(listening) >= 2
    assert {one.laddr.ip.removeprefix("::ffff:") for one in listening} == {LOOPBACK}


@pytest.mark.parametrize("conf", [{}, {"spark.ui.killEnabled": "true"}])
def test_jobs_cannot_be_killed_in_the_ui_unless_configured(
    tmp_path: Path, conf: dict[str, str]
) -> None:
    found = server._conf(SparkStartup(master="", conf=conf, directory=""), tmp_path)

    assert found["spark.ui.killEnabled"] == conf.get("spark.ui.killEnabled", "false")


def test_the_error_of_a_server_that_cannot_start_has_the_reason(tmp_path: Path) -> None:
    with start_keeper(tmp_path, conf={"spark.driver.memory": "1k"}) as keeper:
        assert keeper.wait(timeout=60) == 1
        assert keeper.stderr is not None
        error = keeper.stderr.read()

    assert "Spark exited with status 1" in error
    assert "driver memory" in error.lower() or "heap" in error.lower()
    assert "spark.log" in error


@pytest.mark.full
def test_a_port_in_use_is_an_error(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as taken:
        conf = {"spark.ui.port": str(taken.getsockname()[1])}
        with start_keeper(tmp_path, conf=conf) as keeper:
            assert keeper.wait(timeout=60) == 1
            assert keeper.stderr is not None
            error = keeper.stderr.read()

    assert "Failed to bind" in error
    assert " INFO " not in error


@pytest.mark.parametrize("running", [True, False])
def test_the_next_server_removes_scratch_files_of_killed_ones(
    tmp_path: Path, running: bool
) -> None:
    left = tmp_path / "server-before"
    (left / "scratch").mkdir(parents=True)
    (left / "spark.log").write_text("what it said")
    with subprocess.Popen([sys.executable, "-c", HOLD, left], stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        holder.stdout.readline()
        if not running:
            holder.send_signal(signal.SIGKILL)
            holder.wait()
        with start_keeper(tmp_path, conf={"spark.driver.memory": "1k"}) as keeper:
            keeper.wait(timeout=60)
        holder.kill()

    assert (left / "scratch").exists() is running
    assert (left / "spark.log").read_text() == "what it said"


@pytest.mark.full
def test_a_server_whose_runner_is_dead_ends_before_the_next_one_serves(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as runner:
        serving = identify(runner.pid)
        with ExitStack() as stack:
            orphan = stack.enter_context(kept_server(tmp_path, runner=serving))
            stopped = orphan.keeper
            stopped.send_signal(signal.SIGSTOP)
            alone = stack.enter_context(kept_server(tmp_path, runner=serving))
            assert listens(orphan.address.port)
            runner.kill()
            runner.wait()

            stack.enter_context(kept_server(tmp_path, runner=identify(os.getpid())))

            assert not listens(orphan.address.port)
            assert not listens(alone.address.port)
