"""Publishers in separate processes, which are killed or stopped at a chosen step."""

from __future__ import annotations

import errno
import os
import shutil
import sys
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from holdfast.errors import StaleAttempt
from holdfast.spark import publication
from holdfast.spark.publication import publish


def publish_copy(
    base: Path, source: Path, edition: str, current: Path | None = None, *, whole: bool = True
) -> bool:
    """Publish a copy of what Spark wrote as `base/chunk=a`. The file `current` names the edition
    that may still be written, as the task store does."""

    def write(draft: str) -> None:
        if current is not None and current.read_text() != edition:
            raise StaleAttempt("a newer attempt has started")
        if whole:
            shutil.copytree(source, draft)

    return publish(write, f"{base}/chunk=a", edition=edition, manifest={"source": source.name})


def signal_at(step: int, signal: int) -> None:
    """Have this process send itself a signal before it uses the file system for the n-th time."""
    left = step

    def hook(event: str, arguments: Any) -> None:
        nonlocal left
        if event.startswith(("os.", "shutil.", "ctypes.")) or event == "open":
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal)

    sys.addaudithook(hook)


def publish_disturbed(
    step: int, signal: int, exchanges: bool, base: Path, source: Path, edition: str, current: Path
) -> None:
    if not exchanges:
        publication._exchange = unable
    signal_at(step, signal)
    publish_copy(base, source, edition, current)


def unable(opened: int, target: str) -> None:
    """Raise the error of a file system that cannot swap two directories."""
    raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), target)


def publish_together(start: Barrier, rounds: list[Path], source: Path) -> list[bool]:
    """Publish into each directory at the same moment as others."""
    results = []
    for base in rounds:
        start.wait()
        results.append(publish_copy(base, source, "both"))
    return results


def run_together(start: Barrier, rounds: list[Path], source: Path, answers: Any) -> None:
    answers.put(publish_together(start, rounds, source))
