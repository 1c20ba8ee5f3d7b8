"""URLs of object storage, and references below them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

SCHEMES: Final = ("s3", "gs", "az", "file", "memory")
_BUCKET: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*", re.ASCII)
# A path is used unescaped, so characters that a URL would encode, or that would end its path, are
# not allowed.
_UNCLEAR: Final = re.compile(r"[%?#\\\x00-\x1f\x7f]|(^|/)\.{0,2}(/|$)")


class Address(NamedTuple):
    """A URL split into its parts."""

    scheme: str
    bucket: str
    """The container on Azure, any name or none for memory, empty for files."""
    path: str
    """The path below the bucket, without leading or trailing slashes. Below `/` for files."""

    @property
    def root(self) -> Address:
        """The whole bucket."""
        return self._replace(path="")

    @property
    def is_complete(self) -> bool:
        """Whether it has a bucket, where the scheme requires one."""
        match self.scheme:
            case "file":
                return not self.bucket
            case "memory":
                return not self.bucket or _BUCKET.fullmatch(self.bucket) is not None
        return _BUCKET.fullmatch(self.bucket) is not None

    def __str__(self) -> str:
        if self.scheme == "file":
            return f"file:///{self.path}"
        return f"{self.scheme}://{self.bucket}" + (f"/{self.path}" if self.path else "")


def split(text: str) -> Address:
    """Split a URL or reference into its parts, without any check."""
    scheme, _, rest = text.partition("://")
    bucket, _, path = rest.partition("/")
    return Address(scheme, bucket, path)


def parse(text: str) -> Address:
    """Parse a URL that values can be stored below. Raise ValueError for any other."""
    if "://" not in text:
        raise ValueError("it has no scheme")
    address = split(text.rstrip("/") if not text.endswith("://") else text)
    if address.scheme not in SCHEMES:
        raise ValueError(f"the scheme {address.scheme!r} is not known")
    if not address.is_complete:
        raise ValueError("it has no bucket, or names a host")
    if address.scheme == "file" and not address.path:
        raise ValueError("it has no directory")
    if address.path and _UNCLEAR.search(address.path):
        raise ValueError("its path is ambiguous")
    return address
