"""Spark's settings in a file, as its programs read them."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.errors import InvalidInput

_NAME: Final = re.compile(r"[A-Za-z0-9._/$-]+")
_ESCAPED: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
"""What ends a setting, or means something in it."""


def write_properties(file: Path, settings: Mapping[str, str]) -> None:
    """In a file for this user only: a command line is there for all to see."""
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as lines:
        for name, text in settings.items():
            if not _NAME.fullmatch(name):
                raise InvalidInput(
                    f"{name!r} is no name of a Spark setting",
                    hint="letters, digits and any of . _ - / in it",
                )
            escaped = "".join(_ESCAPED.get(character, character) for character in text)
            lines.write(f"{name} {escaped}\n")


@contextmanager
def properties(settings: Mapping[str, str]) -> Iterator[Path]:
    """A file for a program that has read it when the block ends."""
    with tempfile.TemporaryDirectory(prefix="holdfast-") as directory:
        file = Path(directory, "spark.properties")
        write_properties(file, settings)
        yield file
