"""Log files of a bounded size, and reading of them while they are written."""

from __future__ import annotations

import errno
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Event, Thread

import pytest

from holdfast.logs import files as files_module
from holdfast.logs import log as log_module
from holdfast.logs.files import LogFile, LogWriter
from holdfast.logs.log import LONGEST_TAIL, Log

LIMIT = 2**16
WRITER = """
import sys
from pathlib import Path
from holdfast.logs import log as log_module
from holdfast.logs.files import LogWriter

writer = LogWriter(Path(sys.argv[1]), int(sys.argv[2]))
for number in range(int(sys.argv[3])):
    writer.write(f"{sys.argv[4]}{number:09}\\n".encode())
"""
"""A process that writes numbered lines."""


def started(path: Path, limit: int, lines: int, name: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-c", WRITER, path, str(limit), str(lines), name])


def whole(log: Log, offset: int = 0) -> bytes:
    """Return everything from an offset on."""
    text = b""
    while (part := log.read(offset)).text:
        text += part.text
        offset = part.next
    return text


def size_of(path: Path) -> int:
    return sum(file.stat().st_size for file in path.parent.iterdir())


def write_numbers(path: Path, count: int) -> None:
    writer = LogWriter(path, LIMIT)
    for number in range(count):
        writer.write(b"%09d\n" % number)
    writer.close()


def test_a_log_says_where_a_full_disk_has_lost_output(tmp_path, monkeypatch):
    path = tmp_path / "1.log"
    writer = LogWriter(path, LIMIT)
    writer.write(b"before\n")
    with monkeypatch.context() as full:
        full.setattr(files_module, "_write_all", refuse)
        writer.write(b"lost\n")
        writer.write(b"lost, too\n")

    writer.write(b"after\n")
    writer.write(b"later\n")
    writer.close()

    lost = b"[output was lost here: No space left on device]\n"
    assert path.read_bytes() == b"before\n\n" + lost + b"after\nlater\n"


def refuse(descriptor, data):
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_log_within_its_limit_is_whole_and_in_few_files(tmp_path):
    path = tmp_path / "1.log"

    write_numbers(path, 6500)

    assert whole(LogFile(path)) == b"".join(b"%09d\n" % number for number in range(6500))
    assert len(list(tmp_path.iterdir())) == 4


def test_a_larger_log_keeps_its_beginning_and_its_end(tmp_path):
    path = tmp_path / "1.log"

    write_numbers(path, 20_000)

    lines = whole(LogFile(path)).splitlines()
    (note,) = [at for at, line in enumerate(lines) if line.startswith(b"[")]
    numbers = [int(line) for line in lines[:note]]
    newest = [int(line) for line in lines[note + 1 :]]
    assert numbers == list(range(len(numbers)))
    assert newest == list(range(newest[0], 20_000))
    left_out = (newest[0] - len(numbers)) * 10
    assert lines[note].decode() == f"[{left_out:,} bytes were left out here]"
    assert LIMIT // 5 < len(numbers) * 10 <= LIMIT // 4
    assert len(newest) * 10 >= LIMIT // 2 - 20
    assert size_of(path) <= LIMIT


def test_a_line_longer_than_a_piece_is_cut(tmp_path):
    path = tmp_path / "1.log"
    writer = LogWriter(path, LIMIT)

    writer.write(b"x" * LIMIT * 3 + b"\nthe end\n")
    writer.close()

    text = whole(LogFile(path))
    assert text.startswith(b"x" * (LIMIT // 4)) and text.endswith(b"x\nthe end\n")
    assert size_of(path) <= LIMIT


def test_a_log_is_continued_by_the_next_writer(tmp_path):
    path = tmp_path / "1.log"

    for _ in range(3):
        write_numbers(path, 3000)

    assert whole(LogFile(path)).endswith(b"".join(b"%09d\n" % number for number in range(3000)))
    assert size_of(path) <= LIMIT


def test_a_changed_limit_takes_effect_in_an_existing_log(tmp_path):
    path = tmp_path / "1.log"
    write_numbers(path, 1000)

    larger = LogWriter(path, 2 * LIMIT)
    for _ in range(100):
        larger.write(b"y" * 5000 + b"\n")
    larger.close()

    assert LIMIT < size_of(path) <= 2 * LIMIT
    assert whole(LogFile(path)).startswith(b"000000000\n")


@pytest.mark.parametrize("lines", [0, 1, 3, 4000, 6000, 1_000_000])
def test_the_last_lines_are_found_across_files_and_what_was_left_out(tmp_path, lines):
    path = tmp_path / "1.log"
    write_numbers(path, 20_000)
    log = LogFile(path)

    text = whole(log, log.tail(lines))

    expected = whole(log).splitlines(keepends=True)
    expected = [line for line in expected if not line.startswith(b"[")][-lines:] if lines else []
    kept = [line for line in text.splitlines(keepends=True) if not line.startswith(b"[")]
    assert kept == expected


@pytest.mark.parametrize("lines", [1, 10_000])
def test_the_last_lines_of_a_log_without_any_are_found_soon(tmp_path, lines):
    path, size = tmp_path / "1.log", 2**40
    path.touch()
    os.truncate(path, size)
    begun = time.monotonic()

    assert LogFile(path).tail(lines) == size - LONGEST_TAIL
    assert time.monotonic() - begun < 5


def test_long_lines_are_cut_off_at_a_line_break(tmp_path, monkeypatch):
    monkeypatch.setattr(log_module, "LONGEST_TAIL", 2**20)
    path = tmp_path / "1.log"
    path.write_bytes((b"x" * 9_999 + b"\n") * 300)
    log = LogFile(path)

    last = whole(log, log.tail(200))

    assert last == (b"x" * 9_999 + b"\n") * 104


def test_the_last_lines_are_not_counted_one_by_one(tmp_path):
    path = tmp_path / "1.log"
    path.write_bytes(b"\n" * LONGEST_TAIL)
    begun = time.process_time()

    assert LogFile(path).tail(2**31) == 0
    assert time.process_time() - begun < 0.5


def test_a_follower_sees_everything_once_across_the_files(tmp_path):
    path = tmp_path / "1.log"
    path.touch()
    log, offset, seen, last = LogFile(path), 0, b"", False
    # Within the limit, so that nothing is deleted, however slow the follower is.
    limit, lines = 2**18, 20_000

    with started(path, limit, lines, "") as writer:
        while not last:
            last = writer.poll() is not None
            while (part := log.read(offset)).text:
                seen, offset = seen + part.text, part.next

    numbers = b"".join(b"%09d\n" % number for number in range(lines))
    assert seen == numbers
    assert len(list(tmp_path.iterdir())) > 1


def test_a_slow_follower_is_told_what_it_has_missed(tmp_path):
    path = tmp_path / "1.log"
    write_numbers(path, 1000)
    log = LogFile(path)
    first = log.read(0)

    write_numbers(path, 20_000)
    then = log.read(first.next)
    rest = whole(log, then.next)

    read = first.text + then.text + rest
    notes = [line for line in read.splitlines() if line.startswith(b"[")]
    assert 1 <= len(notes) <= 2
    assert read.endswith(b"000019999\n")
    lines = [line for line in read.splitlines() if not line.startswith(b"[")]
    assert len(lines[1000:]) == len(set(lines[1000:]))


def test_several_processes_write_one_log_without_loss(tmp_path):
    path = tmp_path / "1.log"
    names = "abc"

    writers = [started(path, 2**20, 5000, name) for name in names]
    assert [writer.wait() for writer in writers] == [0, 0, 0]

    lines = whole(LogFile(path)).decode().splitlines()
    for name in names:
        own = [line for line in lines if line.startswith(name)]
        assert own == [f"{name}{number:09}" for number in range(5000)]
    assert len(lines) == 15_000


def test_several_processes_keep_the_limit_together(tmp_path):
    path = tmp_path / "1.log"

    writers = [started(path, LIMIT, 5000, name) for name in "abc"]
    assert [writer.wait() for writer in writers] == [0, 0, 0]

    assert size_of(path) <= LIMIT
    lines = whole(LogFile(path)).decode().splitlines()
    assert sum(line.startswith("[") for line in lines) == 1
    assert all(len(line) == 10 for line in lines if not line.startswith("["))


@pytest.mark.chaos
def test_a_killed_writer_leaves_a_log_that_goes_on(tmp_path, request):
    path = tmp_path / "1.log"
    chance = random.Random(7)
    for _ in range(5 * request.config.getoption("--rounds")):
        with started(path, LIMIT, 10**9, "k") as writer:
            time.sleep(0.2 + chance.random() / 5)
            os.kill(writer.pid, signal.SIGKILL)
        LogWriter(path, LIMIT).close()

    write_numbers(path, 3000)

    assert size_of(path) <= LIMIT
    lines = whole(LogFile(path)).decode().splitlines()
    assert sum(line.startswith("[") for line in lines) == 1
    assert lines[-3000:][100:] == [f"{number:09}" for number in range(3000)][100:]


def test_a_log_that_somebody_deleted_begins_again(tmp_path):
    path = tmp_path / "1.log"
    writer = LogWriter(path, LIMIT)
    writer.write(b"before\n")

    path.unlink()
    writer.write(b"after\n")
    writer.close()

    assert path.read_bytes() == b"after\n"


def test_a_deleted_directory_ends_no_writer(tmp_path):
    path = tmp_path / "r" / "1.log"
    writer = LogWriter(path, LIMIT)

    path.unlink()
    path.parent.rmdir()
    writer.write(b"lost\n")
    writer.close()

    assert not path.parent.exists()
    assert whole(LogFile(path)) == b""


def test_a_log_is_read_while_files_of_it_are_deleted(tmp_path):
    path = tmp_path / "1.log"
    done = Event()

    def write() -> None:
        write_numbers(path, 20_000)
        done.set()

    thread = Thread(target=write)
    thread.start()
    read = []
    while not done.is_set():
        read.append(whole(LogFile(path)))
    thread.join()

    assert all(text.startswith(b"000000000\n") for text in read if text)


def test_files_that_a_task_names_like_pieces_are_ignored(tmp_path):
    path = tmp_path / "1.log"
    for name in ("1.log.00000000000000000000", "1.log.99999999999999999999"):
        (tmp_path / name).write_bytes(b"forged\n")

    assert LogFile(path).list() == ()

    path.write_bytes(b"line\n")
    assert whole(LogFile(path)) == b"line\n"
