"""The id that a standalone cluster has given to this driver."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import parse_qs, urlsplit


def own_id() -> str:
    """Return the id of this process as a driver of a standalone cluster."""
    # The cluster also names directories and logs by it; there is no more direct source.
    page = os.environ.get("SPARK_DRIVER_LOG_URL_STDERR", "")
    if named := parse_qs(urlsplit(page).query).get("driverId"):
        return named[0]
    return Path.cwd().name
