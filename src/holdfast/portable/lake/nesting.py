"""Arrow arrays of lists and maps, which may be parts of others."""

from __future__ import annotations

import pyarrow as pa


def is_list(kind: pa.DataType) -> bool:
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def from_start(array: pa.Array) -> pa.Array:
    """Return a list or map array with its own offsets, which begin with its first value."""
    return array.take(pa.array(range(len(array)))) if array.offset else array
