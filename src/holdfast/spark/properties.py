"""Spark's settings in a file, as its programs read them."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def write_properties(file: Path, settings: Mapping[str, str]) -> None:
    """In a file for this user only: a command line is there for all to see."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as lines:
        for name, text in settings.items():
            escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
            lines.write(f"{name} {escaped}\n")


@contextmanager
def properties(settings: Mapping[str, str]) -> Iterator[Path]:
    """A file for a program that has read it when the block ends."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as directory:
        file = Path(directory, "spark.properties")
        write_properties(file, settings)
        yield file
