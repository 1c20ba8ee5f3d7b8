"""Paths of objects below the URL: human-readable, and unique to each scope and key.

    task/<dag>/<run>/<task>/<map index>/<key>/<digest>.json
    asset/<name or URI>/<key>/<digest>.json

The digest is that of the uncompressed content. On a case-insensitive file system, keys that differ
only in case share a directory, as they would in any other program.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final
from urllib.parse import unquote

from holdfast.errors import HoldfastError
from holdfast.model.path_part import path_part
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.value import check_key

MAX_PART: Final = 100
MAX_METADATA: Final = 1500
"""S3 allows 2 KB for all metadata of an object, names and overhead included."""
KINDS: Final = ("asset", "task")
_FIELDS: Final = {
    "asset": ("asset", "key"),
    "task": ("dag", "run", "task", "index", "key"),
}
"""Names of the parts of a path, and of the metadata of its object."""
_NAME: Final = re.compile(r"([0-9a-f]{64})\.json(\.zst|\.gz)?", re.ASCII)


def owner(scope: StoreScope) -> dict[str, str]:
    """Return the fields that identify the scope, in the order in which they appear in the path."""
    match scope:
        case TaskScope():
            index = str(scope.map_index)
            return {"dag": scope.dag_id, "run": scope.run_id, "task": scope.task_id, "index": index}
        case AssetScope():
            return {"asset": scope.name or scope.uri or str(scope.asset_id)}


def folder(scope: StoreScope, key: str | None = None, *, all_map_indices: bool = False) -> str:
    """Return the directory of a key, or of all keys of the scope."""
    parts = list(owner(scope).values())
    if all_map_indices:
        parts.pop()
    if key is not None:
        parts.append(key)
    kind = "task" if isinstance(scope, TaskScope) else "asset"
    return "/".join((kind, *_encoded(parts)))


def folder_by_id(ti_id: str, key: str | None = None) -> str:
    """Return the directory for a task instance of which only the id is known."""
    parts = ("by-id", ti_id) if key is None else ("by-id", ti_id, key)
    return "/".join(("task", *_encoded(parts)))


def _encoded(parts: Iterable[str]) -> Iterator[str]:
    return (path_part(part, MAX_PART) for part in parts)


def name(content: bytes, suffix: str) -> str:
    """Return the last part of the path, which has the digest of the content."""
    return f"{hashlib.sha256(content).hexdigest()}.json{suffix}"


def digest_and_suffix(path: str) -> tuple[str, str] | None:
    """Return the digest and suffix in the last part of a path; None if it is no object of ours."""
    match = _NAME.fullmatch(path.rpartition("/")[2])
    return (match[1], match[2] or "") if match else None


def metadata(owned: dict[str, str], key: str) -> dict[str, str]:
    """Return the metadata of an object's owner: ASCII, and within the limits of every cloud."""
    said = {**owned, "key": key}
    return {field: path_part(text, MAX_METADATA // len(said)) for field, text in said.items()}


def whose(path: str, said: Mapping[str, str] | None = None) -> tuple[StoreScope, str] | None:
    """Return the scope and the key that an object belongs to, from its path, or from `said`, its
    metadata; None if that does not identify them."""
    kind, *parts, last = path.split("/")
    fields = _FIELDS.get(kind, ())
    if len(parts) != len(fields) or digest_and_suffix(last) is None:
        return None
    if said is None:
        said = dict(zip(fields, parts, strict=True))
    texts = [unquote(said.get(field, "")) for field in fields]
    key = texts.pop()
    try:
        scope = _scope(*texts)
        check_key(key)
    except (HoldfastError, ValueError):
        return None
    # Names that were truncated, or not encoded as ours are, do not map back to the same path.
    return (scope, key) if folder(scope, key) == "/".join((kind, *parts)) else None


def _scope(first: str, *rest: str) -> StoreScope:
    if not rest:
        return AssetScope(name=first)
    run, task, index = rest
    return TaskScope(first, run, task, int(index))
