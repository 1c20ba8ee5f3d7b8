"""Validation of stored values in plain Python: the rules for every store, and for executors.

Depends only on the standard library and `holdfast.errors`, because Spark ships it.
"""

from __future__ import annotations

import math
from typing import Any

from holdfast.errors import InvalidInput, InvalidType, UnreadableValue

MAX_DEPTH = 200

_INSTEAD = {
    "datetime": "store value.isoformat() instead",
    "date": "store value.isoformat() instead",
    "time": "store value.isoformat() instead",
    "timedelta": "store value.total_seconds() instead",
    "bytes": "store base64.b64encode(value).decode() instead",
    "bytearray": "store base64.b64encode(value).decode() instead",
    "set": "store sorted(value) instead",
    "frozenset": "store sorted(value) instead",
    "Decimal": "store str(value) instead",
    "UUID": "store str(value) instead",
    "DataFrame": "write it to storage and store its path instead",
    "Row": "store value.asDict() instead",
    "Timestamp": "store value.isoformat() instead",
    "ndarray": "store value.tolist() instead",
    **dict.fromkeys(
        (
            *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
            *("float16", "float32", "bool_", "bool"),
        ),
        "store value.item() instead",
    ),
}

MOST_LISTED = 1000
"""Maximum number of entries, or other items, that a server lists at once."""
REFERENCE = "__holdfast_ref__"
IN_PLACE = "__holdfast_loc__"
LITERAL = "__holdfast_value__"
HELD = "__holdfast_held__"
_RESERVED = (REFERENCE, IN_PLACE, LITERAL, HELD)
# A reference is stored as {REFERENCE: text}, or {IN_PLACE: text} if the next value overwrites the
# object; {HELD: true} stands for a staged value that its worker holds. A user's dict that looks
# like one of these is stored as {LITERAL: dict}, so that neither is ever taken for the other.


def plain(value: Any) -> Any:
    """Return the value in builtin types only, with tuples as lists. Raise InvalidInput or
    InvalidType with the path inside the value, and a hint what to store instead."""
    if value is None:
        raise InvalidInput(
            "None cannot be stored: it means that there is no entry",
            hint="delete the key, or store an empty string, list or dict",
        )
    return _plain(value, "value", 0)


def escaped(value: Any) -> Any:
    """Return a plain value in its stored form. References are known by how their text begins."""
    reserved = isinstance(value, dict) and next(iter(value), None) in _RESERVED
    return {LITERAL: value} if reserved else value


def unescaped(kept: Any) -> Any:
    """Return the value of its stored form."""
    return kept[LITERAL] if _looks_reserved(kept) and LITERAL in kept else kept


def reference(kept: Any) -> str | None:
    """Return the reference to an offloaded value that is stored instead of it; None for other
    values."""
    if not _looks_reserved(kept):
        return None
    found = kept.get(REFERENCE, kept.get(IN_PLACE))
    return None if found is None else str(found)


def not_json(where: str, error: Exception) -> UnreadableValue:
    """Return the error for stored text that is not JSON, which Holdfast never writes."""
    return UnreadableValue(
        f"{where} holds text that is not JSON: {error}",
        hint="another program has written to the backend or database; set the key again, or "
        "delete it",
    )


def _looks_reserved(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)) in _RESERVED


def _plain(value: Any, path: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise InvalidInput(f"{path[:60]}… is nested deeper than {MAX_DEPTH} levels, or is circular")
    match value:
        case None | bool():
            return value
        case str():
            check_string(value, path)
            return exact(value)
        case int():
            if not -(2**63) <= value < 2**63:
                raise InvalidInput(
                    f"{path} is an integer beyond 64 bits", hint="store str(value) instead"
                )
            return int.__int__(value)
        case float():
            if not math.isfinite(value):
                raise InvalidInput(
                    f"{path} is {value}, which JSON does not have",
                    hint="leave the key out, or store a string such as 'nan'",
                )
            return float.__float__(value)
        case list() | tuple():
            return [_plain(item, f"{path}[{i}]", depth + 1) for i, item in enumerate(value)]
        case dict():
            return {
                _checked_name(name, path): _plain(item, f"{path}[{name!r}]", depth + 1)
                for name, item in value.items()
            }
    kind = type(value).__name__
    raise InvalidType(
        f"{path} is a {kind}, which JSON does not have",
        hint=_INSTEAD.get(kind, "store text, numbers, booleans, lists or dicts of them"),
    )


def _checked_name(name: Any, path: str) -> str:
    if not isinstance(name, str):
        raise InvalidType(
            f"{path} has the key {name!r} of type {type(name).__name__}; JSON keys are text",
            hint=f"use {str(name)!r} as the key",
        )
    check_string(name, f"the key {name!r} in {path}")
    return exact(name)


def exact(text: str) -> str:
    """Return the text of a `str`; a subclass, such as an enumeration, may show something else."""
    return str.__str__(text)


def check_string(text: str, path: str) -> None:
    """Raise InvalidInput for lone surrogates, which no encoding can represent."""
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"{path} has a lone surrogate (U+{ord(text[error.start]):04X}) at {error.start}",
            hint="it is not Unicode text; decode the bytes it came from with errors='replace'",
        ) from None
