"""Where the output of attempts is kept: a file for each, below the home directory."""

from __future__ import annotations

import re
from hashlib import sha256
from pathlib import Path
from typing import Final
from urllib.parse import quote

from holdfast.model.scope import TaskScope

LONGEST: Final = 200
"""File systems take 255 bytes; the map index needs some of them."""


def log_path(home: Path, scope: TaskScope, attempt: int) -> Path:
    """The file with what an attempt printed."""
    mapped = f".{scope.map_index}" if scope.map_index >= 0 else ""
    task = _name(scope.task_id) + mapped
    return run_logs(home, scope.dag_id, scope.run_id) / task / f"{attempt}.log"


def run_logs(home: Path, dag_id: str, run_id: str) -> Path:
    """The directory with all that the attempts of a run printed."""
    return home / "logs" / _name(dag_id) / _name(run_id)


def service_logs(home: Path) -> Path:
    """The directory with what is printed outside of attempts: by DAG files as they are read,
    callbacks and watchers. Not below `logs`, where every name may be that of a DAG."""
    return home / "service-logs"


def watcher_log(home: Path, asset: str, watcher: str) -> Path:
    """The file with what a watcher printed."""
    return service_logs(home) / "watchers" / _name(asset) / f"{_name(watcher)}.log"


def _name(id: str) -> str:
    """An id as the name of a directory, whatever characters it has and however long it is."""
    # A dot in front hides a file or leads upward; one before digits looks like a map index.
    text = re.sub(r"^\.|\.(?=\d+$)", "%2E", quote(id, safe=""))
    if len(text) <= LONGEST:
        return text
    return f"{text[: LONGEST - 20]}%~{sha256(id.encode()).hexdigest()[:16]}"
