"""Names of loads: for directories, and for transactions of tables."""

from __future__ import annotations

import json
import re
from hashlib import sha256
from typing import Any, Final

from holdfast import commands as c
from holdfast.accessor.asset_store import AssetStore
from holdfast.spark.loads.arguments import LoadRules
from holdfast.spark.loads.cursor import Value

_LONGEST: Final = 48
_LONGEST_NAME: Final = 240
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")


def load_name(store: AssetStore, key: str, number: int) -> str:
    """Return the name of the load of an asset that has that number."""
    return f"load={origin_of(store, key)}.{number:012}"


def backfill_name(store: AssetStore, key: str, rules: LoadRules) -> str:
    """Return the name of a backfill, made from its cursor and its range."""
    ends = (_end(rules, rules.initial), _end(rules, rules.end))
    closed = "" if rules.closed == "left" else f".{rules.closed}"
    by = plain(rules.cursor.name)
    name = f"{origin_of(store, key)}.backfill.{by}.{'.'.join(ends)}{closed}"
    # File systems allow 255 bytes for a name.
    return f"load={name}" if len(name) <= _LONGEST_NAME else f"load={name[:150]}_{_digest(name)}"


def application(store: AssetStore, key: str) -> str:
    """Return the name of the sequence of loads that an asset's watermark numbers."""
    return f"holdfast.{origin_of(store, key)}"


def origin_of(store: AssetStore, key: str) -> str:
    """Return the name of an asset's watermark, however the asset is addressed."""
    inner, scope, *_ = store.binding
    if scope.name is None:
        scope = inner.execute(c.GetAsset(scope)).scope
    return f"{plain(str(scope.name))}.{plain(key)}"


def digest_of(value: Any) -> str:
    """Return a digest that identifies a JSON value."""
    return _digest(json.dumps(value, sort_keys=True))[:32]


def _end(rules: LoadRules, value: Value | None) -> str:
    if value is None:
        return "~"  # which `plain` never returns
    return plain(rules.cursor.in_name(value))


def plain(text: str) -> str:
    """Return text in characters that every file system and URL accepts unescaped.

    A digest distinguishes texts that would look the same.
    """
    written = _OTHER.sub("-", text)[:_LONGEST]
    if written == text:
        return text
    return f"{written}_{_digest(text)[:8]}"


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()
