"""Upload of one object whose name is the digest of its content, so that the write is idempotent and
an existing object need not be written again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Final

from holdfast.stores.offload.objects.compression import packed
from holdfast.stores.offload.objects.failure import was_interrupted

if TYPE_CHECKING:
    from obstore.store import ObjectStore

PART_SIZE: Final = 5 * 2**20
"""Part size. Larger objects are sent in parts, so that none takes long and each can be retried."""
PARTS_AT_ONCE: Final = 4
FRESH: Final = timedelta(hours=1)


@dataclass(frozen=True)
class Upload:
    """Upload of one object's content to its path."""

    store: ObjectStore
    path: str
    suffix: str
    content: bytes
    attributes: dict[str, str] | None

    def run(self) -> None:
        """Write the object, unless it exists already."""
        from obstore.exceptions import GenericError

        write = self._in_parts if len(self.content) > PART_SIZE else self._whole
        try:
            write(create=True)
        except GenericError as error:
            # The storage client does not itself retry a request that may have been executed.
            if not was_interrupted(error):
                raise
            write(create=False)

    def _whole(self, *, create: bool) -> None:
        from obstore.exceptions import AlreadyExistsError

        data = b"".join(packed(self.content, self.suffix)) if self.suffix else self.content
        put = partial(
            self.store.put, self.path, data, use_multipart=False, attributes=self.attributes
        )
        if create:
            try:
                put(mode="create")
            except AlreadyExistsError:
                create = self._stands(len(data))
        if not create:
            put()

    def _in_parts(self, *, create: bool) -> None:
        # The size of a compressed object is not known before it is written.
        if create and not self.suffix and self._stands(len(self.content)):
            return
        self.store.put(
            self.path,
            packed(self.content, self.suffix),
            use_multipart=True,
            chunk_size=PART_SIZE,
            max_concurrency=PARTS_AT_ONCE,
            attributes=self.attributes,
        )

    def _stands(self, size: int) -> bool:
        """Return whether the object exists, complete and recent. An old one is written again, since
        an old object without an entry counts as an orphan, and the entry is written after the
        object."""
        try:
            standing = self.store.head(self.path)
        except FileNotFoundError:
            return False
        young = datetime.now(UTC) - standing["last_modified"] < FRESH
        return bool(young and standing["size"] == size)
