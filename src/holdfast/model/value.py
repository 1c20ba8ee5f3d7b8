"""JSON values and keys that may be stored: validation, encoding and comparison."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec

from holdfast.errors import InvalidInput, InvalidType, ValueTooLarge
from holdfast.model.scope import StoreScope
from holdfast.portable.identifier import check_id, check_text
from holdfast.portable.json_rules import (
    HELD,
    IN_PLACE,
    LITERAL,
    MAX_DEPTH,
    REFERENCE,
    escaped,
    exact,
    not_json,
    plain,
    reference,
    unescaped,
)

JsonValue: TypeAlias = (
    "str | float | list[JsonValue] | tuple[JsonValue, ...] | dict[str, JsonValue] | None"
)

MAX_KEY_LENGTH = 512
MAX_REFERENCE_LENGTH = 8192
"""Longer than the path of any object, which has up to 700 characters below its URL."""
LONGEST_OBJECT: Final = 2**20
"""Maximum characters of a run's conf, of a DAG's params and of an event's extra."""

_to_json = msgspec.json.Encoder().encode
_from_json = msgspec.json.Decoder().decode
_skip_json = msgspec.json.Decoder(msgspec.Raw).decode
_NOT_JSON = (msgspec.DecodeError, UnicodeEncodeError, RecursionError)


def check_key(key: str, scope: StoreScope | None = None) -> str:
    """Return a key as plain text. Raise an error for one that is empty, over 512 characters, or has
    control characters."""
    if type(key) is str and 0 < len(key) <= MAX_KEY_LENGTH and key.isascii() and key.isprintable():
        return key
    where = f" for {scope}" if scope else ""
    if not isinstance(key, str):
        raise InvalidType(
            f"a key must be text, not {type(key).__name__}{where}", hint="use str(key)"
        )
    if not key:
        raise InvalidInput(f"the key is empty{where}", hint="give it a name: 'cursor'")
    if len(key) > MAX_KEY_LENGTH:
        raise InvalidInput(
            f"the key {key[:40]!r}…{where} has {len(key)} characters; the limit is "
            f"{MAX_KEY_LENGTH}",
            hint="shorten it, for example by replacing its end with a digest",
        )
    check_text(f"the key {key!r}{where}", key)
    return exact(key)


def encode(value: JsonValue) -> str:
    """Return the value as JSON text. Errors name the path in it and what to store instead."""
    return _to_json(escaped(plain(value))).decode()


def decode(text: str | bytes) -> Any:
    """Return the value of JSON text that `encode` has written."""
    return unescaped(_from_json(text))


def decode_entry(text: str | bytes, where: str) -> Any:
    """Decode the text of an entry. Raise UnreadableValue, which names `where`, if it is no JSON."""
    try:
        return decode(text)
    except _NOT_JSON as error:
        raise not_json(where, error) from None


def shown(text: str) -> str:
    """Return the JSON of the value itself, without our escapes. Text that is not JSON is returned
    as it is."""
    if LITERAL not in text:
        return text
    try:
        return _to_json(decode(text)).decode()
    except _NOT_JSON:
        return text


def shown_json(text: str, where: str) -> str:
    """Return `shown` of an entry's text. Raise UnreadableValue, which names `where`, if it is no
    JSON."""
    try:
        _skip_json(text)
    except _NOT_JSON as error:
        raise not_json(where, error) from None
    return shown(text)


def parse(text: str) -> str:
    """Return JSON text of a person or another program in the form that `encode` writes."""
    try:
        value = _from_json(text)
    except _NOT_JSON as error:
        raise InvalidInput(
            f"the value is not JSON: {error}", hint="write text in quotes: '\"like this\"'"
        ) from None
    if value is None or not _is_harmless(text):
        return encode(value)
    return _to_json(escaped(value)).decode()


def _is_harmless(text: str) -> bool:
    """Return whether no integer in the text is too large, no character a surrogate, and nothing
    nested too deeply. Such text need not be checked value by value, which would take ten times as
    long."""
    nested = text.count("[") + text.count("{")
    return nested <= MAX_DEPTH and "\\u" not in text and _LONG_NUMBER.search(text) is None


_LONG_NUMBER = re.compile("[0-9]{19}")


def check_json(what: str, text: str) -> Any:
    """Return the value of JSON text that is to be stored as it is. Raise InvalidInput where
    `encode` would not have written it."""
    try:
        value = decode(text)
    except _NOT_JSON as error:
        raise InvalidInput(f"{what} is not JSON: {error}") from None
    # `plain` tracks paths, which is too slow here: results of tasks may be large.
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
    """Raise InvalidInput unless the text is a JSON object that `check_json` accepts, of
    `LONGEST_OBJECT` characters at most."""
    if len(text) > LONGEST_OBJECT:
        raise InvalidInput(
            f"{what} has {len(text):,} characters as JSON",
            hint=f"{LONGEST_OBJECT:,} at most: store the data elsewhere, and pass its path",
        )
    if not isinstance(check_json(what, text), dict):
        raise InvalidInput(
            f"{what} is not a JSON object: {text[:40]}", hint="""write '{"key": "value"}'"""
        )


def as_reference(text: str, in_place: bool = False) -> str:
    """Return the JSON text that stands for a reference to an offloaded value; `in_place` where the
    next value of its key will overwrite it."""
    return _to_json({IN_PLACE if in_place else REFERENCE: text}).decode()


def check_reference(where: str, text: str) -> None:
    """Raise InvalidInput unless JSON text stands for a reference exactly as `as_reference` writes
    it, within the limit and without control characters. A reference in place may be any text: a
    third party's hooks may store a whole value in it."""
    found = reference_in(text)
    if found is None or as_reference(found, is_in_place(text)) != text:
        raise InvalidInput(f"{where}: {text!r:.60} is not a reference")
    if not is_in_place(text):
        check_id(f"{where}: the reference", found, MAX_REFERENCE_LENGTH)


def is_reference(text: str) -> bool:
    """Return whether JSON text stands for a reference."""
    return text.startswith((REFERENCE_PREFIX, IN_PLACE_PREFIX))


def is_in_place(text: str) -> bool:
    """Return whether JSON text is a reference to an object that the next value overwrites."""
    return text.startswith(IN_PLACE_PREFIX)


def reference_in(text: str) -> str | None:
    """Return the reference that JSON text stands for, or None."""
    if not is_reference(text):
        return None
    try:
        return reference(_from_json(text))
    except msgspec.DecodeError:
        return None


REFERENCE_PREFIX: Final = f'{{"{REFERENCE}":'
IN_PLACE_PREFIX: Final = f'{{"{IN_PLACE}":'
HELD_TEXT: Final = f'{{"{HELD}":true}}'
"""The JSON text that stands for a staged value which stays on its worker until success."""


def fits(text: str, limit: int) -> bool:
    """Return whether a value's JSON text is within `max_value_storage_bytes`; 0 means no limit."""
    return not limit or len(text) * 4 <= limit or len(text.encode()) <= limit


def too_large(text: str, limit: int, where: str) -> ValueTooLarge:
    return ValueTooLarge(
        f"{where}: the value has {len(text.encode()):,} bytes as JSON; the limit is {limit:,}",
        hint="write it to a file or object store and store its path, or raise [state_store] "
        "max_value_storage_bytes",
    )


def too_large_to_offload(size: int, limit: int, where: str) -> ValueTooLarge:
    return ValueTooLarge(
        f"{where}: the value has {size:,} bytes as JSON; the limit is {limit:,}",
        hint="write it to your own files and store their path, or raise [object_store] "
        "max_value_bytes",
    )


def size_warning(text: str, limit: int, where: str) -> str:
    """Describe a worker's value over the limit, which is stored: no task is interrupted for it."""
    return (
        f"{where}: the value has {len(text.encode()):,} bytes as JSON, more than [state_store] "
        f"max_value_storage_bytes ({limit:,}); it was stored anyway. Write large values to files "
        "and store their paths, or set [workers] state_backend, which does so"
    )


def larger(standing: str | None, proposed: str, where: str) -> str:
    """Return the larger of two JSON texts, both numbers or both strings; `standing` if equal."""
    new = decode(proposed)
    if _order(new) is None:
        raise InvalidType(
            f"{where}: only numbers and strings can advance, not {type(new).__name__}"
        )
    if standing is None:
        return proposed
    if is_reference(standing):
        raise InvalidType(
            f"{where} holds an offloaded value, which cannot be compared here",
            hint="try again: the next advance reads the value first",
        )
    old = decode_entry(standing, where)
    if _order(old) is not _order(new):
        raise InvalidType(
            f"{where} holds a {type(old).__name__}; a {type(new).__name__} cannot advance it",
            hint="advance with the stored type, or set the key again",
        )
    return proposed if new > old else standing


def _order(value: Any) -> type | None:
    """Return the type that a value compares with: numbers with numbers, strings with strings."""
    if isinstance(value, str):
        return str
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float
    return None
