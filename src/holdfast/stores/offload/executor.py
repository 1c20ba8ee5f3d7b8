"""Commands of a handle in an executor whose values are offloaded.

The commands are the same as elsewhere; the worker-side backend writes and reads the values in the
executor, where Holdfast is installed for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any

import msgspec

from holdfast.store import Store
from holdfast.stores.http import HttpStore
from holdfast.stores.offload.configuration import Offloading
from holdfast.wire.codec import JSON


def ask(
    url: str, token: str, retry_window: float, offloading: str, command: Mapping[str, Any]
) -> Any:
    """Return the response to a command as decoded JSON."""
    answer = _store(url, token, retry_window, offloading).execute(
        JSON.decode_command(msgspec.json.encode(command))
    )
    return msgspec.json.decode(JSON.encode(answer))


@lru_cache(maxsize=16)
def _store(url: str, token: str, retry_window: float, offloading: str) -> Store:
    server = HttpStore(url, token, retry_window=timedelta(seconds=retry_window))
    return msgspec.json.decode(offloading, type=Offloading).opened(server, holds_back=False)
