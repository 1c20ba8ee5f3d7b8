"""Free disk space of the directories that a server, its database and its logs need."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.settings import Settings

LEAST_FREE: Final = 64 * 2**20
"""Bytes that have to be free for a server to be ready."""
_SQLITE: Final = "sqlite:///"


def free_space(settings: Settings) -> dict[str, int]:
    """Return the free bytes for `home` and, if it is a file, for the `database`.

    A directory whose file system does not say is left out.
    """
    places = {"home": settings.home}
    if not settings.withheld and settings.store_url.startswith(_SQLITE):
        file = settings.store_url.removeprefix(_SQLITE).partition("?")[0]
        places["database"] = Path(file).parent
    found = {}
    for name, place in places.items():
        with suppress(OSError):
            existing = next(one for one in (place, *place.absolute().parents) if one.exists())
            usage = shutil.disk_usage(existing)
            if usage.total:
                found[name] = usage.free
    return found
