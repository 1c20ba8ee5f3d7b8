"""The program as a whole: streams, exit statuses and unexpected errors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from holdfast.cli import invoke
from holdfast.errors import StoreUnavailable
from holdfast.version import __version__


@pytest.mark.full
def test_the_main_flow_in_an_empty_directory(program, project, task):
    assert program("state-store", "set", *task, "job_id", '"app_1"').status == 0
    assert program("state-store", "get", *task, "job_id").out == '"app_1"\n'
    assert json.loads(program("state-store", "list", "--json").out)["total_entries"] == 1
    for day in ("01", "02"):
        done = program(
            "state-store", "set", "--declare", "--asset", "orders", "watermark", f'"2026-01-{day}"'
        )
        assert done.status == 0
    assert (
        len(program("state-store", "history", "--asset", "orders", "watermark").out.splitlines())
        == 3
    )
    rewind = program(
        "state-store", "rewind", "--asset", "orders", "watermark", "--version", "1", "--dry-run"
    )
    assert rewind.out == '"2026-01-01"\n'
    assert program("state-store", "cleanup-task-store", "--dry-run").out == "Nothing to delete.\n"
    unknown = program("state-store", "get", "--asset", "orderz", "watermark")
    assert (unknown.status, unknown.out) == (1, "")
    assert unknown.err.startswith("error: asset `orderz` is not known\nhint: ")
    assert (project / ".holdfast" / "holdfast.db").exists()


@pytest.mark.full
def test_commands_use_their_exit_statuses_and_streams(program, task):
    assert program("--version") == (0, f"holdfast {__version__}\n", "")
    assert program("state-store", "get", "k").status == 2
    assert program("state-store", "set", *task, "k", "-", stdin="[1]").status == 0
    assert program("state-store", "set", *task, "k", "2", "--if-version", "7").status == 1
    assert program("state-store", "delete", *task, "k").status == 2


def test_a_bad_setting_stops_the_start_and_is_named(program):
    result = program("state-store", "list", HOLDFAST__STATE_STORE__BATCH="1")

    assert (result.status, result.out) == (2, "")
    assert "HOLDFAST__STATE_STORE__BATCH" in result.err


def test_the_program_without_arguments_shows_the_help(program):
    result = program()

    assert (result.status, result.out) == (2, "")
    assert "Usage: holdfast" in result.err


@pytest.mark.full
def test_a_reader_that_stops_reading_is_no_error(program, task):
    for key in ("a", "b"):
        program("state-store", "set", *task, key, "1")
    read, write = os.pipe()
    os.close(read)

    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "state-store", "list"],
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)

    assert done.stderr == b""


@pytest.mark.parametrize("closed", ["0", "1", "2"])
def test_a_closed_stream_is_no_error(project, closed):
    script = f'exec "$0" -m holdfast config list {closed}>&-'

    done = subprocess.run(["sh", "-c", script, sys.executable], capture_output=True, check=False)

    assert (done.returncode, done.stderr) == (0, b"")


def test_a_full_disk_is_not_reported_as_a_bug(project):
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", "config", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )

    assert done.returncode == 1
    assert "No space left on device" in done.stderr
    assert "bug" not in done.stderr


def test_characters_that_stdout_cannot_encode_are_escaped(program):
    result = program("config", "list", HOLDFAST__CORE__HOME="\udcff", PYTHONIOENCODING="ascii")

    assert (result.status, result.err) == (0, "")
    assert "core.home\t\\udcff\t" in result.out


def test_a_working_directory_that_is_gone_is_an_error(project):
    script = 'mkdir gone && cd gone && rmdir ../gone && exec "$0" -m holdfast config list'

    done = subprocess.run(
        ["sh", "-c", script, sys.executable], capture_output=True, text=True, check=False
    )

    assert done.returncode == 2
    assert done.stderr.startswith("error: the current directory no longer exists\nhint: ")


@pytest.mark.parametrize(
    "args",
    [
        ("dags", "show", "\udcff"),
        ("dags", "pause", ""),
        ("runs", "list", "--dag-id", "\udcff"),
        ("runs", "show", "etl", "\udcff"),
        ("runs", "trigger", "etl", "--run-id", "a\nb"),
        ("runs", "delete", "\udcff", "r", "--yes"),
        ("tasks", "list", "x" * 251, "r"),
        ("tasks", "clear", "etl", "r", "ok", "\udcff", "--yes"),
        ("state-store", "list", "--task-id", "\udcff"),
        ("assets", "show", "\udcff"),
    ],
)
def test_an_id_that_cannot_exist_is_bad_usage(program, args):
    result = program(*args)

    assert (result.status, result.out) == (2, "")
    assert "bug" not in result.err


def failing(error):
    def open_store(settings, **options):
        raise error

    return open_store


def test_a_holdfast_error_is_two_lines(monkeypatch, capsys):
    error = StoreUnavailable("the database does not answer", hint="start it")
    monkeypatch.setattr("holdfast.connection.open_store", failing(error))

    assert invoke(["state-store", "list"]) == 1
    assert capsys.readouterr().err == "error: the database does not answer\nhint: start it\n"


def test_an_unexpected_error_is_one_line_and_a_hint(monkeypatch, capsys):
    monkeypatch.setattr("holdfast.connection.open_store", failing(RuntimeError("two\nlines")))

    assert invoke(["state-store", "list"]) == 1
    assert capsys.readouterr().err == (
        "error: unexpected RuntimeError: two lines\n"
        "hint: this is a bug; set HOLDFAST_TRACEBACK=1 to see the traceback\n"
    )


def test_a_traceback_is_shown_on_request(monkeypatch):
    monkeypatch.setenv("HOLDFAST_TRACEBACK", "1")
    monkeypatch.setattr("holdfast.connection.open_store", failing(RuntimeError("why")))

    with pytest.raises(RuntimeError, match="why"):
        invoke(["state-store", "list"])


def test_ctrl_c_prints_one_line(monkeypatch, capsys):
    monkeypatch.setattr("holdfast.connection.open_store", failing(KeyboardInterrupt()))

    assert invoke(["state-store", "list"]) == 1
    assert capsys.readouterr().err.strip() == "error: aborted"


HEAVY = ("alembic", "rich", "sqlalchemy", "msgspec", "asyncio")


@pytest.mark.parametrize(
    ("args", "unused"),
    [
        (["--version"], HEAVY),
        (["state-store", "get", "--help"], ("alembic", "rich", "sqlalchemy")),
        (["config", "list"], ("alembic", "rich", "sqlalchemy")),
        (["state-store", "clean", "--dry-run"], ("alembic", "rich")),
    ],
)
def test_a_command_imports_only_what_it_needs(program, args, unused):
    program("state-store", "list")
    script = (
        "import sys; from holdfast.cli import invoke; invoke(sys.argv[1].split());"
        "print(*sys.modules, file=sys.stderr)"
    )

    done = subprocess.run(
        [sys.executable, "-c", script, " ".join(args)], capture_output=True, text=True, check=True
    )

    assert set(done.stderr.split()).isdisjoint(unused)


def test_a_reader_that_leaves_early_is_no_error(project):
    reader, writer = os.pipe()
    os.close(reader)

    with os.fdopen(writer, "wb") as closed:
        done = subprocess.run(
            [sys.executable, "-m", "holdfast", "config", "list"],
            stdout=closed,
            stderr=subprocess.PIPE,
            check=False,
        )

    assert (done.returncode, done.stderr) == (128 + signal.SIGPIPE, b"")


def test_help_has_a_short_form(holdfast):
    assert holdfast("runs", "list", "-h") == holdfast("runs", "list", "--help")
