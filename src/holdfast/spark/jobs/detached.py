"""Detached process that runs a command and records its exit status.

`python -m holdfast.spark.jobs.detached DIRECTORY COMMAND…` runs the command, with its output in the
directory's `log` and its exit status in `status`, and outlives its parent. Of several processes for
one directory, only one runs the command.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec

from holdfast.model.run import Process
from holdfast.process import this_process

_NOT_FOUND = 127


def owner(directory: Path) -> Process | None:
    """Return the process that runs, or ran, the command of a directory; None if there is none."""
    try:
        return msgspec.json.decode((directory / "owner").read_bytes(), type=Process)
    except FileNotFoundError:
        return None


def exit_status(directory: Path) -> int | None:
    """Return the exit status of the command, or minus its signal; None if not known."""
    try:
        return int((directory / "status").read_text())
    except FileNotFoundError:
        return None


def main(directory: Path, command: list[str]) -> None:
    if os.fork():
        return  # so that it is nobody's child
    os.setsid()
    if not _own(directory):
        return
    # Survive SIGTERM to record the end of a terminated command; commands do not inherit this.
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    with open(directory / "log", "ab") as log:
        try:
            status = subprocess.call(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
            )
        except OSError as error:
            log.write(f"{command[0]} cannot be run: {error}\n".encode())
            status = _NOT_FOUND
    (directory / "spark.properties").unlink(missing_ok=True)
    _written(directory, "status", str(status).encode()).rename(directory / "status")


def _own(directory: Path) -> bool:
    """Make this process the owner of the directory; return False if there is one already."""
    draft = _written(directory, "owner", msgspec.json.encode(this_process()))
    try:
        os.link(draft, directory / "owner")
    except FileExistsError:
        return False
    finally:
        draft.unlink()
    return True


def _written(directory: Path, name: str, content: bytes) -> Path:
    """Write a synced draft file, to be moved to its name atomically."""
    draft = directory / f"{name}.{os.getpid()}"
    with open(draft, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    return draft


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
