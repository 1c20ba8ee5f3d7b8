"""Upload of the logs of attempts to object storage, while they grow and when they have ended.

A log that is not completely uploaded has a file in the directory `log-uploads`, which contains its
key and is locked by the supervisor that uploads it. The lock ends with that process, so another
supervisor finds what a killed one has left, and uploads the rest.
"""

from __future__ import annotations

import fcntl
import logging
import os
import re
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Lock, Thread
from typing import Final
from uuid import uuid4

from holdfast.actions.logs import logs_directory
from holdfast.errors import HoldfastError
from holdfast.logs.files import LogFile
from holdfast.logs.storage import LogStorage, log_storage
from holdfast.portable.backoff import Backoff

INTERVAL: Final = 5.0
"""Seconds between two uploads of a log that grows."""
LONGEST_PAUSE: Final = 60.0
"""Seconds between two tries at most, while the storage is unavailable."""
LAST_PASS: Final = 10.0
"""Time limit in seconds of the last uploads, when the supervisor stops."""
PIECE: Final = 2**20
"""Bytes of a piece in storage. The newest piece is written again as the log grows, so a larger one
would cost more traffic, and a smaller one more objects."""
AT_ONCE: Final = 8
"""Logs that are uploaded at the same time."""
FRESH: Final = 60.0
"""Seconds after which a file without a key counts as left by a supervisor that was killed before
it wrote one."""
_KEY: Final = re.compile(r"(?:[^/.][^/]*/){3}\d+\.log", re.ASCII)

log = logging.getLogger("holdfast.supervisor")


class LogUploads:
    """A thread that uploads logs. No task waits for it, and its failures have no other effect."""

    def __init__(self, home: Path, url: str) -> None:
        self._url = url
        self._logs = logs_directory(home)
        self._pending = home / "log-uploads"
        self._lock = Lock()
        self._uploads: set[_Upload] = set()
        self._woken = Event()
        self._stopping = False
        self._failures: list[str] = []
        """Those of the last uploads."""
        self._left: set[str] = set()
        """Names of the records of uploads that are left to another supervisor."""
        self._thread = Thread(target=self._run, name="upload of logs", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Upload what has not been uploaded, as far as time allows, and end the thread."""
        self._stopping = True
        self._woken.set()
        self._thread.join(LAST_PASS)

    @contextmanager
    def uploading(self, path: Path, *, new: bool) -> Iterator[None]:
        """Upload a log during the `with` block, and its rest after it. `new` if it begins."""
        upload = _Upload(path, path.relative_to(self._logs).as_posix(), new=new)
        with suppress(OSError):  # then it is uploaded unless this process is killed
            upload.record = _recorded(self._pending / uuid4().hex, upload.key)
        with self._lock:
            self._uploads.add(upload)
        try:
            yield
        finally:
            upload.has_ended = True
            self._woken.set()

    def _run(self) -> None:
        backoff, next_pass, last = Backoff(INTERVAL, LONGEST_PAUSE), 0.0, False
        while not last:
            self._woken.wait(max(0.0, next_pass - time.monotonic()))
            self._woken.clear()
            last = self._stopping
            is_pass = last or time.monotonic() >= next_pass
            if is_pass:
                self._adopt()
            elif self._failures:
                continue  # the end of an attempt is no reason to try again earlier
            self._upload(is_pass)
            if self._failures:
                next_pass = time.monotonic() + backoff.pause()
            elif is_pass:
                backoff.reset()
                next_pass = time.monotonic() + INTERVAL

    def _adopt(self) -> None:
        """Take over the uploads of supervisors that are gone."""
        for upload in self._current():
            # The launcher of a killed supervisor may have written a little longer than it lived.
            upload.has_ended |= upload.is_adopted
        with suppress(OSError):  # there is no such directory before the first upload
            for name in set(os.listdir(self._pending)) - self._left:
                taken = _taken(self._pending / name)
                if taken is not None:
                    key, record = taken
                    upload = _Upload(self._logs / key, key, new=False, is_adopted=True)
                    upload.record = record
                    with self._lock:
                        self._uploads.add(upload)

    def _upload(self, all_of_them: bool) -> None:
        """Upload all logs, or those of attempts that have ended."""
        before, self._failures = self._failures, []
        uploads = [one for one in self._current() if all_of_them or one.has_ended]
        waiting = iter(uploads)
        # Daemons, unlike the threads of an executor: a storage that hangs does not delay the exit.
        threads = [
            Thread(target=self._advance, args=(waiting,), daemon=True)
            for _ in range(min(AT_ONCE, len(uploads)) - 1)
        ]
        for thread in threads:
            with suppress(RuntimeError):  # there are too many threads; this one does the work
                thread.start()
        self._advance(waiting)
        for thread in threads:
            with suppress(RuntimeError):
                thread.join()
        if self._failures and not before:
            log.warning("logs cannot be uploaded, retrying: %s", self._failures[0])

    def _advance(self, waiting: Iterable[_Upload]) -> None:
        for upload in waiting:
            if len(self._failures) >= AT_ONCE:
                return  # not one log is at fault, but the storage
            try:
                is_complete = upload.advance(log_storage(self._url))
            except HoldfastError as error:
                self._failures.append(error.message)
                continue
            except Exception:  # as for a file that cannot be read: other logs do not wait for it
                if not upload.has_failed:
                    log.exception("the log %s cannot be uploaded", upload.key)
                upload.has_failed = True
                if not upload.has_ended:
                    continue
                self._leave(upload)
                is_complete = True
            if is_complete:
                with self._lock:
                    self._uploads.discard(upload)

    def _leave(self, upload: _Upload) -> None:
        """Leave an upload that failed at its end to the next supervisor."""
        if upload.record is not None:
            self._left.add(upload.record.name)
            upload.record.release()

    def _current(self) -> list[_Upload]:
        with self._lock:
            return list(self._uploads)


class _Upload:
    """The upload of one log."""

    def __init__(self, path: Path, key: str, *, new: bool, is_adopted: bool = False) -> None:
        self.key = key
        self.is_adopted = is_adopted
        self.has_ended = False
        self.has_failed = False
        self._file = LogFile(path, path.parents[key.count("/")])
        self._is_new = new
        self._sizes: dict[int, int] | None = None
        """The sizes of the pieces in storage, by their offset; None before they are known."""
        self._start = 0
        """The offset of the newest piece in storage, which may still grow."""
        self._end = -1
        """The offset up to which the log has been uploaded."""
        self.record: _Record | None = None

    def advance(self, storage: LogStorage) -> bool:
        """Upload what has been written since the last call; return whether that was the end. Raise
        BackendFailed if the storage fails."""
        has_ended = self.has_ended
        pieces = self._file.list()
        end = pieces[-1].end if pieces else 0
        if end != self._end:
            self._copy(storage, end)
            if len(pieces) > 1:
                self._drop(storage, pieces[0].end, pieces[1].start)
            self._end = end
        if has_ended:
            if pieces:
                sizes = self._sizes or {}
                storage.finish(self.key, max((start + sizes[start] for start in sizes), default=0))
            if self.record is not None:
                self.record.delete()
        return has_ended

    def _copy(self, storage: LogStorage, end: int) -> None:
        if self._sizes is None:
            if self._is_new:
                storage.delete(self.key)  # what a deleted run of the same name may have left
            self._sizes = {} if self._is_new else dict(storage.log(self.key).list())
            self._start = max(self._sizes, default=0)
        while self._start < end:
            start, data = self._file.data(self._start, PIECE)
            if not data:
                break
            self._start = start
            if len(data) > self._sizes.get(start, 0):
                storage.put(self.key, start, data)
                self._sizes[start] = len(data)
            if start + len(data) >= end:
                break
            self._start += len(data)

    def _drop(self, storage: LogStorage, begin: int, end: int) -> None:
        """Delete the pieces between two offsets."""
        sizes = self._sizes or {}
        dropped = [start for start in sizes if begin <= start and start + sizes[start] <= end]
        storage.drop(self.key, dropped)
        for start in dropped:
            del sizes[start]


class _Record:
    """A locked file that records an upload until it is complete."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self._path = path
        self._descriptor = descriptor

    @property
    def name(self) -> str:
        return self._path.name

    def delete(self) -> None:
        with suppress(OSError):
            os.unlink(self._path)
        self.release()

    def release(self) -> None:
        """Let another supervisor take over the upload."""
        os.close(self._descriptor)


def _recorded(path: Path, key: str) -> _Record:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.write(descriptor, key.encode())
    return _Record(path, descriptor)


def _taken(path: Path) -> tuple[str, _Record] | None:
    """Return the key of a recorded upload, and its record; None if a living supervisor has it."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:  # its upload is complete
        return None
    with suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        status = os.fstat(descriptor)
        key = os.read(descriptor, 2**12).decode(errors="replace")
        if _KEY.fullmatch(key) and status.st_nlink:
            return key, _Record(path, descriptor)
        if time.time() > status.st_mtime + FRESH:
            path.unlink(missing_ok=True)
    os.close(descriptor)
    return None
