"""Properties files with Spark settings."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from holdfast.errors import InvalidInput

_NAME: Final = re.compile(r"[A-Za-z0-9._/$-]+")
_ESCAPED: Final = {"\\": "\\\\", "\n": "\\n", "\r": "\\r", "\f": "\\f"}
"""Characters that would end a setting, or have a meaning in it."""


def write_properties(file: Path, settings: Mapping[str, str]) -> None:
    """Write settings to a file that only this user can read: a command line is visible to all.

    Raise InvalidInput for a name that cannot be a setting's.
    """
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as lines:
        for name, text in settings.items():
            if not _NAME.fullmatch(name):
                raise InvalidInput(
                    f"{name!r} is not the name of a Spark setting",
                    hint="use letters, digits and any of . _ - /",
                )
            escaped = "".join(_ESCAPED.get(character, character) for character in text)
            # With `=`: after a space, one that begins the value would be taken for the separator.
            lines.write(f"{name}={escaped}\n")
