"""Checks before any task starts that Spark is available to run tasks."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from holdfast.errors import InvalidSettings, MissingDependency, SparkUnavailable
from holdfast.process import ask, signal_name
from holdfast.settings import Settings, without_password
from holdfast.spark.session.session import address_of

OLDEST_JAVA: Final = 17
CONNECT_SECONDS: Final = 5.0
INSTALL_JAVA: Final = (
    f"install Java {OLDEST_JAVA} or later, such as Debian's openjdk-17-jre-headless, or set "
    "JAVA_HOME to its directory"
)
_PACKAGES: Final = ("pyspark", "pandas", "pyarrow", "grpc", "grpc_status", "google.rpc")
_MASTER: Final = re.compile(r"local(\[.+\])?|local-cluster\[.+\]|yarn|spark://.+|k8s://.+")
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')


def check(settings: Settings) -> None:
    """Raise an error with a hint what to do if tasks could not run on the configured Spark."""
    spark = settings.spark
    check_packages()
    if not spark.remote:
        check_java()
        check_master(spark.master)
        return
    if spark.master or spark.conf:
        other = "spark.master" if spark.master else "spark.conf"
        raise InvalidSettings(
            f"{other} and spark.remote cannot both be set: that Spark is already running",
            hint=f"remove one of them; {_origin(settings, other)}",
        )
    address = address_of(spark.remote)
    if not answers(address.host, address.port):
        raise SparkUnavailable(
            f"the Spark Connect server {without_password(spark.remote)} does not answer",
            hint=f"start it, or correct spark.remote; {_origin(settings, 'spark.remote')}",
        )


def check_packages() -> None:
    """Raise MissingDependency unless PySpark, and what its Connect client needs, is installed."""
    for package in _PACKAGES:
        found = None
        with suppress(ModuleNotFoundError):
            found = find_spec(package)
        if found is None:
            raise MissingDependency(
                f"Spark tasks need the package {package.split('.')[0]}, which is not installed",
                hint='pip install "holdfast-state[spark]"',
            )


def check_java() -> None:
    """Raise SparkUnavailable unless the Java that Spark's scripts would start works for Spark."""
    java = _find_java()
    try:
        result = ask([java, "-version"])
    except (OSError, subprocess.SubprocessError) as error:
        raise SparkUnavailable(f"{java} cannot be run: {error}", hint=INSTALL_JAVA) from None
    version = _VERSION.search(result.stderr)
    if version is None:
        said = (result.stderr or result.stdout).strip().splitlines()
        shown = [line for line in said if "Picked up" not in line]  # its options, not its failure
        if not shown and result.returncode < 0:
            shown = [f"it was killed by {signal_name(-result.returncode)}"]
        raise SparkUnavailable(
            f"{java} is not a working Java: {''.join(shown[:1])}", hint=INSTALL_JAVA
        )
    if int(version[1]) < OLDEST_JAVA:
        raise SparkUnavailable(
            f"{java} is Java {version[1]}, but Spark needs {OLDEST_JAVA} or later",
            hint=INSTALL_JAVA,
        )


def check_master(master: str) -> None:
    """Raise InvalidSettings unless Spark knows such a master, and SparkUnavailable unless a
    standalone one responds."""
    if master and not _MASTER.fullmatch(master):
        raise InvalidSettings(
            f"spark.master may not be {master!r}",
            hint="use local[N], spark://host:port, yarn or k8s://…; for sc://… set spark.remote",
        )
    if master.startswith("spark://") and not any(
        answers(*_host_and_port(one)) for one in master.removeprefix("spark://").split(",")
    ):
        raise SparkUnavailable(
            f"the Spark master {master} does not answer", hint="start it, or correct spark.master"
        )


def answers(host: str, port: int) -> bool:
    """Return whether anything listens there."""
    try:
        socket.create_connection((host, port), CONNECT_SECONDS).close()
    except OSError:
        return False
    return True


def _find_java() -> str:
    home = os.environ.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if not java.is_file():
            raise SparkUnavailable(
                f"JAVA_HOME is {home}, which has no bin/java",
                hint=f"correct or unset JAVA_HOME; Spark needs Java {OLDEST_JAVA} or later",
            )
        return str(java)
    found = shutil.which("java")
    if found is None:
        raise SparkUnavailable("Java, which Spark needs, is not installed", hint=INSTALL_JAVA)
    return found


def _host_and_port(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise InvalidSettings(
            f"spark.master has {text!r} where a host and a port should be",
            hint="write spark://host:7077",
        )
    return host.strip("[]"), int(port)


def _origin(settings: Settings, name: str) -> str:
    return f"{name} is set in {settings.origins.get(name, 'the defaults')}"
