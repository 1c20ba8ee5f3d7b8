"""Names of loads: of directories, and for transactions of tables."""

from __future__ import annotations

import re
from hashlib import sha256
from typing import Final

from holdfast.scope import AssetScope
from holdfast.spark.loads.cursor import Value
from holdfast.spark.loads.rules import LoadRules

_LONGEST: Final = 48
_OTHER: Final = re.compile(r"[^A-Za-z0-9_-]")


def load_name(scope: AssetScope, key: str, number: int) -> str:
    """Name the load of an asset that starts from that version of its watermark."""
    return f"load={_origin(scope, key)}.{number:012}"


def backfill_name(scope: AssetScope, key: str, rules: LoadRules) -> str:
    """Name a backfill by its range."""
    ends = (_end(rules, rules.initial), _end(rules, rules.end))
    closed = "" if rules.closed == "left" else f".{rules.closed}"
    return f"load={_origin(scope, key)}.backfill.{'.'.join(ends)}{closed}"


def application(scope: AssetScope, key: str) -> str:
    """Name the sequence of loads that an asset's watermark numbers."""
    return f"holdfast.{_origin(scope, key)}"


def _origin(scope: AssetScope, key: str) -> str:
    return f"{plain(str(scope.name or scope.uri or scope.asset_id))}.{plain(key)}"


def _end(rules: LoadRules, value: Value | None) -> str:
    if value is None:
        return "first"
    text = str(rules.cursor.as_json(value))
    return plain(text.replace(":", "").replace(".000000", "").replace(".", "_"))


def plain(text: str) -> str:
    """Write text with characters that every file system and URL takes as they are.

    A digest keeps apart what would look the same.
    """
    written = _OTHER.sub("-", text)[:_LONGEST]
    if written == text:
        return text
    return f"{written}_{sha256(text.encode(errors='surrogatepass')).hexdigest()[:8]}"
