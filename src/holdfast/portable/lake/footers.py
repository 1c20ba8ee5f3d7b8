"""Footers of Parquet files: their schema, rows and statistics."""

from __future__ import annotations

import zlib
from typing import Any

from holdfast.errors import InvalidInput
from holdfast.portable.lake.storage import Files

MAGIC = b"PAR1"
GUESS = 64 * 1024
"""Number of bytes that are read first: larger than most footers."""


def footer_of(files: Files, path: str, size: int) -> bytes:
    """Return the footer of a file of that size, in the form of a Parquet file without rows.

    Raise InvalidInput if it is not a Parquet file.
    """
    end = files.tail(path, size, min(size, GUESS))
    length = int.from_bytes(end[-8:-4], "little") + 8
    if len(end) < 12 or end[-4:] != MAGIC or length > size - 4:
        raise InvalidInput(
            f"{path} is not a Parquet file, or is not complete", hint="write the load again"
        )
    if length > len(end):
        end = files.tail(path, size, length)
    return MAGIC + end[-length:]


def metadata_of(footer: bytes) -> Any:
    """Return pyarrow's `FileMetaData` of a footer."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pq.read_metadata(pa.BufferReader(footer))


def packed(footer: bytes) -> bytes:
    """Return a footer in the form in which it travels."""
    return zlib.compress(footer, 1)


def unpacked(footer: bytes) -> bytes:
    return zlib.decompress(footer)
