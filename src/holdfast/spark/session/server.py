"""The Spark Connect server of a run: one JVM, from the PySpark package."""

from __future__ import annotations

import ctypes
import fcntl
import math
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

import msgspec

from holdfast.errors import SparkUnavailable
from holdfast.model.run import Process
from holdfast.process import has_ended, identify
from holdfast.spark.session.address import CONNECT_VARIABLES, SparkAddress, SparkStartup
from holdfast.spark.session.properties import write_properties

START_SECONDS: Final = 120.0
LOGS_KEPT: Final = 5
TRIES: Final = 3
"""Number of tries to start: another process may take a port that was just free."""
_CLASS: Final = "org.apache.spark.sql.connect.service.SparkConnectServer"
_PORT: Final = "spark.connect.grpc.binding.port"
_UI_PORT: Final = "spark.ui.port"
_PORT_TAKEN: Final = re.compile("Address already in use|Failed to bind")
_CHATTER: Final = re.compile(r"^\tat |^WARNING: |^Using | (INFO|WARN) ")
_PROPERTIES: Final = "spark.properties"
_SERVING: Final = "serving.json"
_LOOPBACK: Final = "127.0.0.1"


def serve(startup: SparkStartup, ready: Callable[[SparkAddress], None]) -> int:
    """Start a server, report its address to `ready`, wait for its end, and return its exit status.

    The server is in the process group of the caller, and ends with the caller's process if the
    operating system supports that.
    """
    parent = Path(startup.directory).absolute()
    _end_orphans(parent)
    directory = _own_directory(parent)
    log = directory / "spark.log"
    tries = TRIES
    while True:
        process, address = _start(startup, directory, log)
        try:
            serving = _Serving(startup.runner, identify(process.pid))
            (directory / _SERVING).write_bytes(msgspec.json.encode(serving))
            _wait_until_it_listens(process, address, log)
            (directory / _PROPERTIES).unlink()
            ready(address)
            return process.wait()
        except SparkUnavailable:
            tries -= 1
            killed = (process.poll() or 0) < 0
            if not tries or not (killed or _chosen_port_is_taken(startup, log)):
                raise
        finally:
            process.kill()
            process.wait()
            (directory / _PROPERTIES).unlink(missing_ok=True)


class _Serving(msgspec.Struct, frozen=True):
    """The server's process, and the process of the runner that it serves."""

    runner: Process | None
    server: Process


def _end_orphans(parent: Path) -> None:
    """Kill servers whose runner is dead, and wait until they have ended.

    They should have ended with it; but if a process in between is stopped, nobody signals them, and
    their attempts would write at the same time as their successors.
    """
    for file in parent.glob(f"server-*/{_SERVING}"):
        with suppress(OSError, msgspec.MsgspecError):  # it was removed, or is being written
            found = msgspec.json.decode(file.read_bytes(), type=_Serving)
            if found.runner is not None and has_ended(found.runner):
                while not has_ended(found.server):
                    os.kill(found.server.pid, signal.SIGKILL)
                    time.sleep(0.05)


def _chosen_port_is_taken(startup: SparkStartup, log: Path) -> bool:
    """Return whether a port that we chose is taken, so that others may be free. A port that the
    user chose would be taken again."""
    chosen = startup.conf.keys().isdisjoint((_PORT, _UI_PORT))
    return chosen and _PORT_TAKEN.search(log.read_text(errors="replace")) is not None


def _start(
    startup: SparkStartup, directory: Path, log: Path
) -> tuple[subprocess.Popen[bytes], SparkAddress]:
    package = find_spec("pyspark")
    assert package is not None
    assert package.origin is not None
    home = Path(package.origin).parent
    conf = _conf(startup, directory)
    token = conf.pop("spark.connect.authenticate.token", "") or secrets.token_urlsafe(24)
    environment = {
        name: text for name, text in os.environ.items() if name not in CONNECT_VARIABLES
    } | {
        "SPARK_HOME": str(home),
        "SPARK_CONNECT_AUTHENTICATE_TOKEN": token,
        "PYSPARK_PYTHON": conf.get("spark.pyspark.python", sys.executable),
    }
    if _is_here(conf["spark.master"]):
        environment["SPARK_LOCAL_IP"] = _LOOPBACK
    properties = directory / _PROPERTIES
    write_properties(properties, conf)
    with open(log, "wb") as output:
        process = subprocess.Popen(
            [
                home / "bin" / "spark-submit",
                *("--properties-file", properties, "--load-spark-defaults"),
                *("--class", _CLASS, "spark-internal"),
            ],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            preexec_fn=_die_with_parent(),
        )
    # PySpark sends a token without TLS only to a host of this name.
    has_ui = conf.get("spark.ui.enabled", "true") == "true"
    ui = f"http://localhost:{conf[_UI_PORT]}" if has_ui else ""
    return process, SparkAddress("localhost", int(conf[_PORT]), token, ui)


def _conf(startup: SparkStartup, directory: Path) -> dict[str, str]:
    """Return the settings of the server: our defaults, overridden by the user's."""
    port, ui_port = _free_ports()
    paths = {"java.io.tmpdir": "tmp", "derby.system.home": "derby"}
    options = [f'"-D{name}={directory / path}"' for name, path in paths.items()]
    given = dict(startup.conf)
    options.append(given.pop("spark.driver.extraJavaOptions", ""))
    return {
        "spark.app.name": "holdfast",
        "spark.master": startup.master or "local[*]",
        "spark.connect.grpc.binding.address": _LOOPBACK,
        _PORT: str(port),
        _UI_PORT: str(ui_port),
        # The next port would be unknown to clients; a new start chooses another.
        "spark.port.maxRetries": "0",
        "spark.ui.showConsoleProgress": "false",
        # The UI has no password: every user of this machine could end jobs there.
        "spark.ui.killEnabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
        "spark.local.dir": str(directory / "scratch"),
        "spark.connect.progress.reportInterval": "1s",
        # A task may compute for a long time without a request to Spark.
        "spark.connect.session.manager.defaultSessionTimeout": "24h",
        # Ends operations that a killed task has left running, if no attempt resumes them.
        "spark.connect.execute.manager.detachedTimeout": "1m",
        # An operation is not forgotten, as long as it has not ended and its session exists.
        "spark.connect.session.inactiveOperations.cacheExpiration": "24h",
        # A source that a task reads twice is listed once, while its plan is cached.
        "spark.connect.session.planCache.maxSize": "256",
        "spark.python.task.killTimeout": "0s",
        "spark.sql.connect.serverStacktrace.enabled": "false",
        **given,
        "spark.driver.extraJavaOptions": " ".join(options).strip(),
    }


def _wait_until_it_listens(
    process: subprocess.Popen[bytes], address: SparkAddress, log: Path
) -> None:
    deadline = time.monotonic() + START_SECONDS
    while process.poll() is None:
        if time.monotonic() > deadline:
            raise SparkUnavailable(
                f"Spark is not listening after {START_SECONDS:.0f} s:\n{last_lines(log)}",
                hint=f"the full log is in {log}",
            )
        with socket.socket() as probe:
            if probe.connect_ex((_LOOPBACK, address.port)) == 0:
                return
        time.sleep(0.05)
    raise SparkUnavailable(
        f"Spark exited with status {process.returncode}:\n{last_lines(log)}",
        hint=f"the full log is in {log}",
    )


def last_lines(log: Path) -> str:
    """Return the end of a log, without stack traces and Spark's routine messages."""
    lines = log.read_text(errors="replace").splitlines()
    return "\n".join([line for line in lines if not _CHATTER.search(line)][-8:])


def _own_directory(parent: Path) -> Path:
    """Create a directory for one server. Of servers that have ended, only the latest logs are
    kept."""
    parent.mkdir(parents=True, exist_ok=True)
    for age, directory in enumerate(sorted(parent.glob("server-*"), key=_age)):
        with suppress(OSError):  # another process removes it at the same time
            if _lock(directory):
                for path in (directory,) if age >= LOGS_KEPT - 1 else directory.glob("*/"):
                    shutil.rmtree(path, ignore_errors=True)
    own = Path(tempfile.mkdtemp(prefix="server-", dir=parent))
    _lock(own)
    for name in ("tmp", "scratch", "derby"):
        (own / name).mkdir()
    return own


def _age(directory: Path) -> float:
    try:
        return time.time() - directory.stat().st_mtime
    except FileNotFoundError:  # another process has removed it
        return math.inf


def _lock(directory: Path) -> bool:
    """Lock a directory; return False if another process has it. The lock ends with the process."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return False
    return True


def _free_ports() -> tuple[int, int]:
    with socket.socket() as one, socket.socket() as other:
        one.bind((_LOOPBACK, 0))
        other.bind((_LOOPBACK, 0))
        return one.getsockname()[1], other.getsockname()[1]


def _is_here(master: str) -> bool:
    return master.startswith(("local", "spark://localhost:", f"spark://{_LOOPBACK}:"))


def _die_with_parent() -> Callable[[], None] | None:
    if sys.platform != "linux":
        return None
    prctl = ctypes.CDLL(None).prctl
    set_death_signal = 1
    return lambda: prctl(set_death_signal, signal.SIGKILL)
