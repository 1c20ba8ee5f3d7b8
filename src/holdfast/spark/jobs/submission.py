"""Spark applications to submit, and the `spark-submit` command."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import msgspec

from holdfast.errors import InvalidInput, MissingDependency
from holdfast.spark.session.address import CONNECT_VARIABLES

INTENT: Final = "spark.holdfast.intent"
"""The setting by which a driver is identified, if the cluster shows its settings."""


class Submission(msgspec.Struct, frozen=True, kw_only=True):
    """A Python file or a jar, with all that its driver needs."""

    name: str
    intent: str
    application: str
    """An absolute path, or a URL."""
    main_class: str
    args: tuple[str, ...]
    conf: Mapping[str, str]
    files: tuple[str, ...]
    py_files: tuple[str, ...]
    jars: tuple[str, ...]
    archives: tuple[str, ...]
    environment: Mapping[str, str]
    """Environment variables for the driver, which no command line and no page may show."""

    @property
    def is_python(self) -> bool:
        return self.application.endswith(".py")

    def settings(self) -> dict[str, str]:
        """Return the Spark settings. The user's settings override all but the intent."""
        lists = {
            "spark.files": self.files,
            "spark.submit.pyFiles": self.py_files,
            "spark.jars": self.jars,
            "spark.archives": self.archives,
        }
        given = {name: ",".join(paths) for name, paths in lists.items() if paths}
        return {"spark.app.name": self.name, **given, **self.conf, INTENT: self.intent}


def located(what: str, path: str) -> str:
    """Return a URL unchanged, or a path made absolute; raise InvalidInput if it does not exist."""
    name, hash, alias = path.partition("#")
    url = urlsplit(name)
    if url.scheme and url.scheme != "file":
        return path
    file = Path(url.path if url.scheme else name).absolute()
    if not file.exists():
        raise InvalidInput(
            f"{what} `{path}` does not exist: {file} not found",
            hint="relative paths start at the runner's working directory; for files that only the "
            "cluster has, give a URL such as local:/opt/app.py or s3a://bucket/app.py",
        )
    return f"{file}{hash}{alias}"


def spark_home() -> Path:
    """Return the directory of the Spark installation; raise MissingDependency if there is none."""
    if home := os.environ.get("SPARK_HOME"):
        return Path(home)
    package = find_spec("pyspark")
    if package is None or package.origin is None:
        raise MissingDependency(
            "Spark is not installed here, and the environment variable SPARK_HOME is not set",
            hint='pip install "holdfast-state[spark]"',
        )
    return Path(package.origin).parent


def spark_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for a `spark-submit` that this process starts. It uses the Python of
    this process unless PYSPARK_PYTHON is set."""
    ours = {
        "SPARK_HOME": str(spark_home()),
        "PYSPARK_PYTHON": os.environ.get("PYSPARK_PYTHON", sys.executable),
    }
    other = {name: text for name, text in os.environ.items() if name not in CONNECT_VARIABLES}
    return {**other, **ours, **extra}


def submit_command(
    submission: Submission, master: str, deploy_mode: str, properties: Path
) -> list[str]:
    """Return the `spark-submit` command for a submission whose settings are in a file."""
    command = [
        str(spark_home() / "bin" / "spark-submit"),
        *("--master", master, "--deploy-mode", deploy_mode),
        *("--properties-file", str(properties), "--load-spark-defaults"),
    ]
    if submission.main_class:
        command += ["--class", submission.main_class]
    return [*command, submission.application, *submission.args]


def as_text(what: str, values: Sequence[object]) -> tuple[str, ...]:
    """Return command-line arguments as text; raise InvalidInput unless given as a sequence."""
    if isinstance(values, str) or not isinstance(values, Sequence):
        raise InvalidInput(f"{what} is {values!r}", hint="give a list")
    return tuple(str(value) for value in values)
