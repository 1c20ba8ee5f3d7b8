"""What may be stored: JSON values and keys, how they are encoded, and how values compare."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any, TypeAlias

import msgspec

from holdfast.errors import InvalidInput, InvalidType, ValueTooLarge
from holdfast.scope import StoreScope, check_text

JsonValue: TypeAlias = (
    "str | float | list[JsonValue] | tuple[JsonValue, ...] | dict[str, JsonValue] | None"
)

MAX_KEY_LENGTH = 512
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
}

_REFERENCE = "__holdfast_ref__"
_LITERAL = "__holdfast_value__"
_RESERVED = (_REFERENCE, _LITERAL)
# A reference is stored as {_REFERENCE: text}. A user's own dict of that look, or of the other, is
# stored as {_LITERAL: dict}, so that neither is ever taken for the other.

_to_json = msgspec.json.Encoder().encode
_from_json = msgspec.json.Decoder().decode


def check_key(key: str, scope: StoreScope | None = None) -> None:
    """Refuse what cannot be a key: empty, over 512 characters, with control characters."""
    if type(key) is str and 0 < len(key) <= MAX_KEY_LENGTH and key.isascii() and key.isprintable():
        return
    where = f" for {scope}" if scope else ""
    if not isinstance(key, str):
        raise InvalidType(f"a key must be text, not {type(key).__name__}{where}")
    if not key:
        raise InvalidInput(f"the key is empty{where}")
    if len(key) > MAX_KEY_LENGTH:
        raise InvalidInput(
            f"the key {key[:40]!r}…{where} has {len(key)} characters; the limit is {MAX_KEY_LENGTH}"
        )
    check_text(f"the key {key!r}{where}", key)


def encode(value: JsonValue) -> str:
    """The value as JSON text. Errors name the path inside the value and what to store instead."""
    if value is None:
        raise InvalidInput(
            "None cannot be stored: it means that there is no entry",
            hint="delete the key, or store an empty string, list or dict",
        )
    plain = _plain(value, "value", 0)
    if _looks_reserved(plain):
        plain = {_LITERAL: plain}
    return _to_json(plain).decode()


def decode(text: str) -> Any:
    """The value behind JSON text that `encode` has made."""
    value = _from_json(text)
    if _looks_reserved(value) and _LITERAL in value:
        return value[_LITERAL]
    return value


def shown(text: str) -> str:
    """The JSON of the value itself, for those who know nothing of how it is kept."""
    return _to_json(decode(text)).decode() if _LITERAL in text else text


def parse(text: str) -> str:
    """JSON text that a person or another program wrote, as `encode` would have written it."""
    try:
        value = _from_json(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidInput(
            f"the value is not JSON: {error}", hint="text is written in quotes: '\"like this\"'"
        ) from None
    return encode(value)


def check_json(what: str, text: str) -> Any:
    """The value behind JSON text, which is to be kept as it is; refused where `encode` would not
    have written it."""
    try:
        value = decode(text)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError) as error:
        raise InvalidInput(f"{what} is not JSON: {error}") from None
    # Not by `_plain`, whose paths take their time: results of tasks may be large.
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        if any(type(item) is int and not -(2**63) <= item < 2**63 for item in level):
            raise InvalidInput(f"{what} has an integer beyond 64 bits")
        level = [inner for item in level for inner in _parts(item)]
        if not level:
            return value
    raise InvalidInput(f"{what} is nested deeper than {MAX_DEPTH} levels")


def _parts(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


def check_json_object(what: str, text: str) -> None:
    """The same, for what has to be a JSON object."""
    if not isinstance(check_json(what, text), dict):
        raise InvalidInput(
            f"{what} is no JSON object: {text[:40]}", hint="""write '{"key": "value"}'"""
        )


def as_reference(reference: str) -> str:
    """The JSON text that stands for a reference to a value kept elsewhere."""
    return _to_json({_REFERENCE: reference}).decode()


def reference_in(text: str) -> str | None:
    """The reference that JSON text stands for, if it does."""
    if _REFERENCE not in text:
        return None
    value = _from_json(text)
    if _looks_reserved(value) and _REFERENCE in value:
        return str(value[_REFERENCE])
    return None


def _looks_reserved(value: Any) -> bool:
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)) in _RESERVED


def fits(text: str, limit: int) -> bool:
    """Whether a value's JSON text is within `max_value_storage_bytes`; 0 means no limit."""
    return not limit or len(text) * 4 <= limit or len(text.encode()) <= limit


def too_large(text: str, limit: int, where: str) -> ValueTooLarge:
    return ValueTooLarge(
        f"{where}: the value has {len(text.encode()):,} bytes as JSON; the limit is {limit:,}",
        hint="keep it in a file or object store and store its path, or raise "
        "[state_store] max_value_storage_bytes",
    )


def _plain(value: Any, path: str, depth: int) -> Any:
    """The value in builtin types only, tuples as lists."""
    if depth > MAX_DEPTH:
        raise InvalidInput(f"{path[:60]}… is nested deeper than {MAX_DEPTH} levels, or is circular")
    match value:
        case None | bool():
            return value
        case str():
            _check_string(value, path)
            return str(value)
        case int():
            if not -(2**63) <= value < 2**63:
                raise InvalidInput(
                    f"{path} is an integer beyond 64 bits", hint="store str(value) instead"
                )
            return int(value)
        case float():
            if not math.isfinite(value):
                raise InvalidInput(
                    f"{path} is {value}, which JSON does not have",
                    hint="leave the key out, or store a string such as 'nan'",
                )
            return float(value)
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
    _check_string(name, f"the key {name!r} in {path}")
    return str(name)


def _check_string(text: str, path: str) -> None:
    if text.isascii():
        return
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"{path} has a lone surrogate (U+{ord(text[error.start]):04X}) at {error.start}",
            hint="it is not Unicode text; decode the bytes it came from with errors='replace'",
        ) from None


def larger(standing: str | None, proposed: str, where: str) -> str:
    """The larger of two JSON texts, both numbers or both strings. Equal: the one that stands."""
    new = decode(proposed)
    if _order(new) is None:
        raise InvalidType(
            f"{where}: only numbers and strings can advance, not {type(new).__name__}"
        )
    if standing is None:
        return proposed
    old = decode(standing)
    if _order(old) is not _order(new):
        raise InvalidType(
            f"{where} holds a {type(old).__name__}; a {type(new).__name__} cannot advance it",
            hint="advance with the type that stands, or set the key anew",
        )
    return proposed if new > old else standing


def _order(value: Any) -> type | None:
    """What a value compares with: numbers with numbers, strings with strings."""
    if isinstance(value, str):
        return str
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float
    return None
