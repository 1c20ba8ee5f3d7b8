"""Logs in object storage: uploads of growing logs, and reading of the copies."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from objectserver import object_server
from project import wait_until

from holdfast.errors import BackendFailed, InvalidSettings, MissingDependency
from holdfast.logs import log
from holdfast.logs import storage as log_storage
from holdfast.logs.files import LogFile, LogWriter
from holdfast.logs.log import Log
from holdfast.logs.storage import LogStorage, StoredLog
from holdfast.runner.supervisor import log_uploads
from holdfast.runner.supervisor.log_uploads import LogUploads
from holdfast.settings import load

KEY = "etl/r1/load/1.log"
LIMIT = 2**18


@pytest.fixture(scope="module")
def bucket() -> Iterator[Callable[[], str]]:
    """Yield a function that creates buckets of a real S3 server."""
    with object_server() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server.make_bucket


@pytest.fixture(params=["file", pytest.param("s3", marks=pytest.mark.full)])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "file":
        return f"file://{tmp_path}/storage"
    return f"{request.getfixturevalue('bucket')()}/logs"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home of a supervisor that uploads often, and in small pieces."""
    monkeypatch.setattr(log_uploads, "INTERVAL", 0.1)
    monkeypatch.setattr(log_uploads, "PIECE", 2**14)
    return tmp_path / "home"


@pytest.fixture
def uploads(home: Path, url: str) -> Iterator[LogUploads]:
    uploads = LogUploads(home, url)
    uploads.start()
    yield uploads
    uploads.stop()


def stored(url: str) -> StoredLog:
    return LogStorage(url).log(KEY)


def whole(log: Log, offset: int = 0) -> bytes:
    text = b""
    while (part := log.read(offset)).text:
        text += part.text
        offset = part.next
    return text


def numbers(first: int, last: int) -> bytes:
    return b"".join(b"%09d\n" % number for number in range(first, last))


def is_complete(url: str) -> bool:
    log = stored(url)
    return log.exists() and log.is_complete


def pending(home: Path) -> list[str]:
    return os.listdir(home / "log-uploads")


def test_a_log_is_in_storage_while_it_grows_and_complete_after_its_end(uploads, home, url):
    path = home / "logs" / KEY
    writer = LogWriter(path, LIMIT)

    with uploads.uploading(path, new=True):
        writer.write(numbers(0, 10))
        wait_until(lambda: whole(stored(url)) == numbers(0, 10))
        assert not is_complete(url)
        writer.write(numbers(10, 8000))
        wait_until(lambda: whole(stored(url)) == numbers(0, 8000))
        assert len(pending(home)) == 1
        writer.write(b"last\n")
    wait_until(lambda: is_complete(url))

    assert whole(stored(url)) == numbers(0, 8000) + b"last\n"
    assert 4 < len(stored(url).list()) < 10
    wait_until(lambda: not pending(home))


def test_a_log_without_output_is_complete_and_empty(uploads, home, url):
    path = home / "logs" / KEY

    with uploads.uploading(path, new=True):
        LogWriter(path, LIMIT).close()
    wait_until(lambda: is_complete(url))

    assert whole(stored(url)) == b""


def test_the_copy_of_a_large_log_keeps_both_ends_and_is_bounded(uploads, home, url):
    path = home / "logs" / KEY
    writer = LogWriter(path, LIMIT)

    with uploads.uploading(path, new=True):
        for first in range(0, 100_000, 1000):
            writer.write(numbers(first, first + 1000))
            time.sleep(0.005)
    wait_until(lambda: is_complete(url))

    text = whole(stored(url))
    assert text.startswith(numbers(0, 1000)) and text.endswith(numbers(95_000, 100_000))
    assert text.count(b"bytes were left out here]\n") >= 1
    assert sum(piece.size for piece in stored(url).list()) <= LIMIT + 4 * 2**14
    log = stored(url)
    assert whole(log, log.tail(3)) == numbers(99_997, 100_000)


def test_a_follower_of_the_copy_sees_everything_once(uploads, home, url):
    path = home / "logs" / KEY
    writer = LogWriter(path, 2**22)
    log, offset, seen = stored(url), 0, b""

    with uploads.uploading(path, new=True):
        for first in range(0, 50_000, 1000):
            writer.write(numbers(first, first + 1000))
            time.sleep(0.01)
            part = log.read(offset)
            seen, offset = seen + part.text, part.next
    wait_until(lambda: is_complete(url))

    assert seen + whole(log, offset) == numbers(0, 50_000)


def test_what_a_deleted_run_of_the_same_name_has_left_is_replaced(uploads, home, url):
    storage, path = LogStorage(url), home / "logs" / KEY
    storage.put(KEY, 0, b"x" * 100_000)
    storage.put(KEY, 100_000, b"y")
    storage.finish(KEY, 100_001)

    with uploads.uploading(path, new=True):
        LogWriter(path, LIMIT).write(b"new\n")
    wait_until(lambda: whole(stored(url)) == b"new\n")

    wait_until(lambda: is_complete(url))
    assert whole(stored(url)) == b"new\n"


def test_output_after_the_end_is_added_to_the_copy(uploads, home, url):
    path = home / "logs" / KEY
    with uploads.uploading(path, new=True):
        LogWriter(path, LIMIT).write(b"the task\n")
    wait_until(lambda: not pending(home))

    with uploads.uploading(path, new=False):
        LogWriter(path, LIMIT).write(b"its callback\n")
    wait_until(lambda: not pending(home))

    assert whole(stored(url)) == b"the task\nits callback\n"
    assert is_complete(url)


KILLED = """
import sys, time
from pathlib import Path
from holdfast.logs.files import LogWriter
from holdfast.runner.supervisor import log_uploads

log_uploads.INTERVAL = 0.1
home, url, key = Path(sys.argv[1]), sys.argv[2], sys.argv[3]
uploads = log_uploads.LogUploads(home, url)
uploads.start()
writer = LogWriter(home / "logs" / key, 2**20)
with uploads.uploading(home / "logs" / key, new=True):
    for number in range(10**9):
        writer.write(b"%09d\\n" % number)
        time.sleep(0.0001)
"""


def test_the_rest_of_a_killed_process_is_uploaded_by_another(home, url):
    with subprocess.Popen([sys.executable, "-c", KILLED, home, url, KEY]) as killed:
        wait_until(lambda: whole(stored(url)))
        os.kill(killed.pid, signal.SIGKILL)
    assert len(pending(home)) == 1

    uploads = LogUploads(home, url)
    uploads.start()
    wait_until(lambda: is_complete(url))
    uploads.stop()

    assert whole(stored(url)) == whole(LogFile(home / "logs" / KEY))
    assert not pending(home)


def test_a_living_process_keeps_its_uploads(home, url):
    with subprocess.Popen([sys.executable, "-c", KILLED, home, url, KEY]) as living:
        wait_until(lambda: whole(stored(url)))
        uploads = LogUploads(home, url)
        uploads.start()
        time.sleep(0.5)
        uploads.stop()
        assert not is_complete(url)
        assert len(pending(home)) == 1
        living.kill()


def test_a_storage_that_fails_is_reported_once_and_tried_again(home, tmp_path, caplog):
    blocked, path = tmp_path / "storage", home / "logs" / KEY
    blocked.write_text("a file where the directory should be")
    url = f"file://{blocked}/logs"
    uploads = LogUploads(home, url)
    uploads.start()

    with uploads.uploading(path, new=True):
        LogWriter(path, LIMIT).write(b"one\n")
        time.sleep(1)
    blocked.unlink()
    wait_until(lambda: is_complete(url))
    uploads.stop()

    assert [record.getMessage()[:34] for record in caplog.records] == [
        "logs cannot be uploaded, retrying:"
    ]
    assert whole(stored(url)) == b"one\n"


def test_a_log_that_cannot_be_stored_does_not_keep_others_from_it(home, tmp_path):
    storage = tmp_path / "storage"
    storage.mkdir()
    (storage / "bad").write_text("a file where a directory should be")
    uploads = LogUploads(home, f"file://{storage}")
    uploads.start()

    for key in ("bad/r1/load/1.log", KEY):
        with uploads.uploading(home / "logs" / key, new=True):
            LogWriter(home / "logs" / key, LIMIT).write(b"one\n")
    wait_until(lambda: is_complete(f"file://{storage}"))
    uploads.stop()

    assert len(pending(home)) == 1


def test_an_upload_that_fails_is_left_to_the_next_supervisor(home, url, caplog):
    path = home / "logs" / KEY
    first = LogUploads(home, url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(log_uploads._Upload, "advance", lambda upload, storage: 1 / 0)
        first.start()
        with first.uploading(path, new=True):
            LogWriter(path, LIMIT).write(b"one\n")
            time.sleep(0.5)
        wait_until(lambda: not first._current())
    time.sleep(0.5)
    again, second = len(pending(home)), LogUploads(home, url)
    second.start()
    wait_until(lambda: is_complete(url))
    second.stop()
    first.stop()

    assert (again, pending(home)) == (1, [])
    assert caplog.text.count("ZeroDivisionError: ") == 1
    assert whole(stored(url)) == b"one\n"


@pytest.mark.parametrize("key", ["", "../holdfast.db", "/etc/passwd", "a/../../1.log", "a/b/c/d"])
def test_a_record_that_names_no_log_is_not_uploaded(home, url, key):
    record = home / "log-uploads" / "forged"
    record.parent.mkdir(parents=True)
    record.write_text(key)
    os.utime(record, (0, 0))
    (home / "holdfast.db").write_text("secret")

    uploads = LogUploads(home, url)
    uploads.start()
    wait_until(lambda: not record.exists())
    uploads.stop()

    assert list(LogStorage(url).names("")) == []


def test_what_could_not_be_uploaded_waits_for_the_next_process(home, tmp_path):
    blocked, path = tmp_path / "storage", home / "logs" / KEY
    blocked.write_text("a file where the directory should be")
    url = f"file://{blocked}/logs"
    first = LogUploads(home, url)
    first.start()
    with first.uploading(path, new=True):
        LogWriter(path, LIMIT).write(b"one\n")
    first.stop()
    for upload in first._current():  # as at the end of its process
        os.close(upload.record._descriptor)
    blocked.unlink()

    second = LogUploads(home, url)
    second.start()
    wait_until(lambda: is_complete(url))
    second.stop()

    assert whole(stored(url)) == b"one\n"
    assert not pending(home)


def test_the_logs_of_a_run_are_deleted_from_storage(url):
    storage = LogStorage(url)
    for key in ("etl/r1/load/1.log", "etl/r1/load/2.log", "etl/r10/load/1.log"):
        storage.put(key, 0, b"text")
        storage.finish(key, 4)

    storage.delete("etl/r1")

    assert not storage.log("etl/r1/load/1.log").exists()
    assert not storage.log("etl/r1/load/2.log").exists()
    assert storage.log("etl/r10/load/1.log").exists()


def test_logs_are_deleted_by_few_requests_even_if_some_are_gone(url, monkeypatch):
    monkeypatch.setattr(log_storage, "DELETED_AT_ONCE", 10)
    storage = LogStorage(url)
    starts = range(25)
    for start in starts:
        storage.put(KEY, start, b"x")
    storage.drop(KEY, [0, 3, 12])

    storage.drop(KEY, starts)

    assert list(storage.names(KEY)) == []


def test_the_last_lines_of_many_pieces_are_found_in_the_newest(url, monkeypatch):
    monkeypatch.setattr(log, "LONGEST_TAIL", 10)
    storage = LogStorage(url)
    for number in range(20):
        storage.put(KEY, 4 * number, b"row\n")

    assert storage.log(KEY).tail(2) == 72
    assert storage.log(KEY).tail(100) == 68


def test_a_bucket_that_does_not_exist_is_a_clear_error(bucket):
    with pytest.raises(BackendFailed, match="the bucket does not exist"):
        LogStorage("s3://nobody-has-this/logs").put(KEY, 0, b"text")


def test_the_error_without_obstore_names_the_setting_and_the_extra(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "obstore", None)

    with pytest.raises(
        MissingDependency, match=r"\[logs\] url needs the package obstore"
    ) as raised:
        LogStorage(f"file://{tmp_path}")

    assert "holdfast-state[objects]" in raised.value.hint


@pytest.mark.parametrize("url", ["memory://logs", "http://host/logs", "s3://", "logs"])
def test_a_url_that_cannot_hold_logs_is_refused(tmp_path, url):
    with pytest.raises(InvalidSettings, match="logs.url may not be"):
        load(tmp_path, {"HOLDFAST__LOGS__URL": url})
