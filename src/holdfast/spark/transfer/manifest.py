"""The manifest of an export, which is written last."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from holdfast.errors import InvalidInput
from holdfast.spark.transfer.checksum import Total
from holdfast.spark.transfer.directory import Directory
from holdfast.spark.transfer.filter import CONTENT
from holdfast.spark.transfer.plan import Chunk

FILE: Final = "manifest.json"
VERSION: Final = 1


class Part(msgspec.Struct, frozen=True):
    """A chunk, in the directory of its name."""

    directory: str
    where: str
    count: int
    checksum: str

    @property
    def total(self) -> Total:
        return Total(self.count, self.checksum)


class Table(msgspec.Struct, frozen=True):
    """Entries of a table; `where` is their condition, empty for all."""

    where: str
    count: int
    checksum: str
    chunks: tuple[Part, ...]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The description of a whole export."""

    format: int = VERSION
    holdfast: str
    exported_at: datetime
    resolved: bool
    tables: dict[str, Table]

    @property
    def chunks(self) -> list[Chunk]:
        return [
            Chunk(name, part.directory, part.where, part.count)
            for name, table in self.tables.items()
            for part in table.chunks
        ]


class _Version(msgspec.Struct):
    format: int


def read_manifest(directory: Directory) -> Manifest:
    """Return the manifest of a finished export; raise InvalidInput if there is none or it is
    invalid."""
    if FILE not in directory.names():
        raise InvalidInput(
            f"{directory.path} is not a finished export: it has no {FILE}",
            hint="give the directory that `holdfast state-store export` wrote, or let it finish",
        )
    text = directory.read(FILE)
    try:
        version = msgspec.json.decode(text, type=_Version).format
        if version != VERSION:
            raise InvalidInput(
                f"{directory.path} is an export of format {version}; this version of Holdfast "
                f"reads format {VERSION}",
                hint="import it with the version of Holdfast that wrote it, or a later one",
            )
        manifest = msgspec.json.decode(text, type=Manifest)
    except msgspec.DecodeError as error:
        raise InvalidInput(f"{directory.path}/{FILE} cannot be read: {error}") from None
    unknown = manifest.tables.keys() - CONTENT.keys()
    if unknown:
        raise InvalidInput(f"{directory.path}/{FILE} lists an unknown table `{unknown.pop()}`")
    return manifest


def write_manifest(directory: Directory, manifest: Manifest) -> None:
    text = msgspec.json.format(msgspec.json.encode(manifest), indent=2)
    directory.write(FILE, text.decode())
