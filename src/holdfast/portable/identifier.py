"""Validation of the identifiers of state: names of dags, runs, tasks and assets.

Depends only on `holdfast.errors`, because Spark ships it.
"""

from __future__ import annotations

import re
from typing import Any
from uuid import UUID

from holdfast.errors import InvalidInput, InvalidType

MAX_ID_LENGTH = 250
MAX_ASSET_LENGTH = 1500
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029]")


def check_id(what: str, text: Any, limit: int = MAX_ID_LENGTH) -> str:
    """Return an id as a plain `str`. Raise InvalidType unless it is text, and InvalidInput where it
    is empty, too long, or has control characters or lone surrogates."""
    if not isinstance(text, str):
        raise InvalidType(f"{what} must be text, not {type(text).__name__}", hint="use str(…)")
    if not text:
        raise InvalidInput(f"{what} is empty", hint=f"give it 1 to {limit} characters")
    if len(text) > limit:
        raise InvalidInput(
            f"{what} has {len(text)} characters; the limit is {limit}",
            hint="shorten it, for example by replacing its end with a digest",
        )
    check_text(what, text)
    return str.__str__(text)  # a subclass, such as an enumeration, may show other text


def check_text(what: str, text: str) -> None:
    """Raise InvalidInput for control characters and lone surrogates; any other Unicode is valid."""
    if text.isascii() and text.isprintable():
        return
    for position, char in enumerate(text):
        code = ord(char)
        if code < 0x20 or 0x7F <= code < 0xA0:
            raise InvalidInput(
                f"{what} has the control character U+{code:04X} at {position}",
                hint="remove it (text.strip() removes line ends), or encode it",
            )
        if 0xD800 <= code < 0xE000:
            raise InvalidInput(
                f"{what} has the lone surrogate U+{code:04X} at {position}",
                hint="decode the bytes it came from with errors='replace'",
            )


def one_line(text: str) -> str:
    """Return the text on one line, without characters that move the cursor or change colors."""
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def escaped_lines(text: str) -> str:
    """Return the text with its lines and tabs, and any other control character or line separator as
    `\\x1b` or `\\u2028`: printed on a terminal, it moves no cursor and changes no colors."""
    return _CONTROL.sub(_escaped, text.replace("\r\n", "\n"))


def _escaped(found: re.Match[str]) -> str:
    return found[0].encode("unicode_escape").decode()


def is_uuid(text: str) -> bool:
    """Return whether the text is a UUID as `str(uuid4())` writes it."""
    try:
        return str(UUID(text)) == text
    except ValueError:
        return False


def check_map_index(index: Any) -> None:
    """Raise InvalidType unless the index is an integer, InvalidInput if below -1 or over 31
    bits."""
    if type(index) is not int:
        raise InvalidType(f"map_index must be an integer, not {index!r}", hint="use int(…)")
    if not -1 <= index < 2**31:
        raise InvalidInput(f"map_index is {index}", hint="use -1, or 0 and more for a mapped task")
