"""The store that is configured here, and the person who uses it."""

from __future__ import annotations

import getpass
import os

from holdfast.entry import ApiWriter
from holdfast.settings import Settings
from holdfast.store import Store


def open_store(settings: Settings) -> Store:
    """The configured store. One that does not answer fails at once: a person is waiting."""
    from holdfast import connection

    return connection.open_store(settings)


def person() -> ApiWriter:
    """Whoever runs this command, as a writer."""
    try:
        return ApiWriter(getpass.getuser())
    except (KeyError, OSError):
        # A container may run under a user id that has no name.
        return ApiWriter(f"uid {os.getuid()}")
