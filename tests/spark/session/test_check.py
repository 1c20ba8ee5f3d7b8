"""Checks of Java, PySpark and masters before a run."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError, InvalidSettings, MissingDependency, SparkUnavailable
from holdfast.settings import Settings, Spark
from holdfast.spark.session import check as checks
from holdfast.spark.session.check import check

DEBIAN_17 = 'openjdk version "17.0.15" 2025-04-15'
ORACLE_8 = 'java version "1.8.0_202"'


def settings(**spark: object) -> Settings:
    return Settings(spark=Spark(**spark))  # type: ignore[arg-type]


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """Return the only directory in PATH, which has no Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def install_java(directory: Path, says: str, status: int = 0) -> Path:
    directory.mkdir(exist_ok=True)
    java = directory / "java"
    java.write_text(
        f"#!{sys.executable}\nimport sys\nprint({says!r}, file=sys.stderr)\nsys.exit({status})\n"
    )
    java.chmod(0o755)
    return java


def install_java_that_is_killed(directory: Path, times: int) -> Path:
    """Install a Java whose first processes something kills; later ones print their version."""
    java = directory / "java"
    java.write_text(
        f"#!{sys.executable}\n"
        "import os, pathlib, sys\n"
        "print('Picked up JAVA_TOOL_OPTIONS: -Xmx1g', file=sys.stderr, flush=True)\n"
        f"killed = pathlib.Path({str(directory / 'killed')!r})\n"
        "before = len(killed.read_text()) if killed.exists() else 0\n"
        f"if before < {times}:\n"
        "    killed.write_text('x' * (before + 1))\n"
        "    os.kill(os.getpid(), 9)\n"
        f"print({DEBIAN_17!r}, file=sys.stderr)\n"
    )
    java.chmod(0o755)
    return java


def refusal(kind: type[HoldfastError], configured: Settings) -> HoldfastError:
    with pytest.raises(kind) as raised:
        check(configured)
    assert "\n" not in raised.value.message
    assert raised.value.hint
    return raised.value


def test_a_machine_with_java_and_pyspark_passes_the_check(no_java: Path) -> None:
    install_java(no_java, DEBIAN_17)

    check(settings())


def test_missing_java_is_an_error(no_java: Path) -> None:
    error = refusal(SparkUnavailable, settings())

    assert error.message == "Java, which Spark needs, is not installed"
    assert "install Java 17 or later" in error.hint


def test_java_that_is_too_old_is_an_error(no_java: Path) -> None:
    java = install_java(no_java, ORACLE_8)

    error = refusal(SparkUnavailable, settings())

    assert error.message == f"{java} is Java 8, but Spark needs 17 or later"


def test_java_home_takes_precedence_over_the_path(
    no_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_java(no_java, ORACLE_8)
    (tmp_path / "jdk").mkdir()
    install_java(tmp_path / "jdk" / "bin", DEBIAN_17)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))

    check(settings())


def test_a_java_home_without_java_is_an_error(
    no_java: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_java(no_java, DEBIAN_17)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))

    error = refusal(SparkUnavailable, settings())

    assert "nowhere, which has no bin/java" in error.message


def test_a_java_stub_that_asks_for_installation_is_an_error(no_java: Path) -> None:
    install_java(
        no_java, "The operation couldn't be completed. Unable to locate a Java Runtime.", 1
    )

    error = refusal(SparkUnavailable, settings())

    assert "Unable to locate a Java Runtime" in error.message


def test_java_that_something_kills_is_asked_again(no_java: Path) -> None:
    install_java_that_is_killed(no_java, 2)

    check(settings())

    assert (no_java / "killed").read_text() == "xx"


def test_java_that_is_killed_each_time_is_an_error(no_java: Path) -> None:
    java = install_java_that_is_killed(no_java, 100)

    error = refusal(SparkUnavailable, settings())

    assert error.message == f"{java} is not a working Java: it was killed by SIGKILL"


def test_the_error_of_java_is_shown_without_the_options_that_it_picked_up(no_java: Path) -> None:
    install_java(no_java, "NOTE: Picked up JDK_JAVA_OPTIONS: -X9\nUnrecognized option: -X9", 1)

    assert "Unrecognized option: -X9" in refusal(SparkUnavailable, settings()).message


def test_the_error_for_a_missing_package_names_the_extra_to_install(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(checks, "_PACKAGES", ("no_such.package",))

    error = refusal(MissingDependency, settings())

    assert "no_such" in error.message
    assert error.hint == 'pip install "holdfast-state[spark]"'


def test_a_remote_that_answers_needs_no_java(no_java: Path, listening: int) -> None:
    check(settings(remote=f"sc://127.0.0.1:{listening}"))


def test_the_error_for_an_unavailable_remote_does_not_show_its_token(closed: int) -> None:
    begin = time.monotonic()

    error = refusal(SparkUnavailable, settings(remote=f"sc://127.0.0.1:{closed}/;token=s3cret"))

    assert f"127.0.0.1:{closed}" in error.message
    assert "s3cret" not in str(error)
    assert time.monotonic() - begin < 6


def test_a_malformed_remote_is_an_error() -> None:
    refusal(InvalidSettings, settings(remote="http://spark"))


@pytest.mark.parametrize("other", [{"master": "local[2]"}, {"conf": {"spark.a": "b"}}])
def test_a_remote_cannot_be_combined_with_settings_that_start_spark(
    listening: int, other: dict[str, object]
) -> None:
    error = refusal(InvalidSettings, settings(remote=f"sc://127.0.0.1:{listening}", **other))

    assert f"spark.{next(iter(other))}" in error.message


@pytest.mark.parametrize(
    "master", ["local", "local[*]", "local[2,3]", "yarn", "k8s://https://h:6443"]
)
def test_masters_that_spark_knows_are_accepted(no_java: Path, master: str) -> None:
    install_java(no_java, DEBIAN_17)

    check(settings(master=master))


@pytest.mark.parametrize("master", ["sc://h:15002", "mesos://h", "lokal", "spark://", "spark://h"])
def test_other_masters_are_refused(no_java: Path, master: str) -> None:
    install_java(no_java, DEBIAN_17)

    refusal(InvalidSettings, settings(master=master))


def test_a_standalone_master_has_to_answer(no_java: Path, listening: int, closed: int) -> None:
    install_java(no_java, DEBIAN_17)
    gone = f"spark://127.0.0.1:{closed}"

    check(settings(master=f"{gone},127.0.0.1:{listening}"))
    error = refusal(SparkUnavailable, settings(master=gone))

    assert error.message == f"the Spark master {gone} does not answer"
