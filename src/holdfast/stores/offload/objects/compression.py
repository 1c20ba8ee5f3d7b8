"""Streaming compression of objects, in constant memory."""

from __future__ import annotations

import sys
import zlib
from collections.abc import Iterator
from types import ModuleType
from typing import Any, Final

from holdfast.errors import MissingDependency

PIECE: Final = 2**20
LARGEST: Final = 2**28
"""Largest content in bytes that is compressed or decompressed. Larger content is not compressed."""
SUFFIXES: Final = {"none": "", "zstd": ".zst", "gzip": ".gz"}
_GZIP: Final = 16 + zlib.MAX_WBITS


class Damaged(Exception):
    """The bytes of an object cannot be what was written."""


def packed(content: bytes, suffix: str) -> Iterator[bytes | memoryview]:
    """Yield the bytes of the object for this content."""
    view = memoryview(content)
    pieces = (view[start : start + PIECE] for start in range(0, len(view), PIECE))
    if not suffix:
        yield from pieces
        return
    # Neither format includes a timestamp, so equal content gives equal bytes.
    packer = zlib.compressobj(wbits=_GZIP) if suffix == ".gz" else zstd().ZstdCompressor()
    for piece in pieces:
        if smaller := packer.compress(piece):
            yield smaller
    yield packer.flush()


def unpacker(suffix: str) -> Any:
    """Return the decompressor for `unpacked` of one object; None if it is not compressed."""
    if suffix == ".gz":
        return zlib.decompressobj(wbits=_GZIP)
    return zstd().ZstdDecompressor() if suffix == ".zst" else None


def unpacked(chunk: Any, unpacker: Any) -> Iterator[Any]:
    """Yield the content in one chunk of an object. Raise Damaged if it cannot be decompressed."""
    if unpacker is None:
        yield chunk
        return
    while not unpacker.eof:
        try:
            piece = unpacker.decompress(chunk, PIECE)
        except Exception as error:  # each library has its own exception class
            raise Damaged from error
        yield piece
        chunk = getattr(unpacker, "unconsumed_tail", b"")
        if len(piece) < PIECE and not chunk:
            return


def zstd() -> ModuleType:
    """Return the module for Zstandard, which the standard library has since Python 3.14. Raise
    MissingDependency if it is not installed."""
    try:
        if sys.version_info >= (3, 14):
            from compression import zstd
        else:
            from backports import zstd
    except ModuleNotFoundError:
        raise MissingDependency(
            "zstd needs the package backports.zstd, which is not installed",
            hint='pip install "holdfast-state[objects]", or set '
            '[object_store] compression = "gzip"',
        ) from None
    return zstd  # type: ignore[no-any-return, unused-ignore]
