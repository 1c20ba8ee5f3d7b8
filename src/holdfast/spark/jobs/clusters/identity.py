"""What a cluster calls the driver that asks."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


def own_id() -> str:
    """The id of this process as a driver of a standalone cluster."""
    # Which it also names directories and logs by; there is nothing more direct.
    page = os.environ.get("SPARK_DRIVER_LOG_URL_STDERR", "")
    if named := parse_qs(urlsplit(page).query).get("driverId"):
        return named[0]
    return Path.cwd().name
