"""The CLI at a terminal: questions, tables, progress."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest

from holdfast.commands import RegisterTask, Set
from holdfast.connection import open_store
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import TaskScope
from holdfast.settings import load


@pytest.fixture
def terminal() -> Callable[..., tuple[int, str]]:
    """Return a function that runs a command line at a terminal with typed input, and returns its
    status and the screen."""

    def call(*args: str, typed: str = "") -> tuple[int, str]:
        master, slave = pty.openpty()
        os.write(master, typed.encode())
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *args],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=os.environ | {"TERM": "xterm", "COLUMNS": "120"},
        )
        os.close(slave)
        screen = b""
        try:
            while chunk := os.read(master, 65536):
                screen += chunk
        except OSError:
            pass  # The other end is closed: a terminal on Linux reports it like this.
        os.close(master)
        return process.wait(), re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.decode())

    return call


@pytest.mark.full
def test_answering_no_changes_nothing(terminal, program, task):
    program("state-store", "set", *task, "k", "1")

    status, screen = terminal("state-store", "clear", *task, typed="n\n")

    assert status == 1
    assert "Clear 1 entry of task etl/r1/load? [y/N]" in screen
    assert program("state-store", "get", *task, "k").out == "1\n"


def test_answering_yes_continues(terminal, program, task):
    program("state-store", "set", *task, "k", "1")

    status, screen = terminal("state-store", "delete", *task, "k", typed="y\n")

    assert status == 0
    assert "Deleted `k` of task etl/r1/load." in screen


@pytest.mark.full
def test_entries_are_a_table_that_shows_keys_and_values_as_they_are(terminal, program, task):
    program("state-store", "set", *task, "[red]:smile:", json_text := '"' + "x" * 500 + '"')

    status, screen = terminal("state-store", "list", *task)

    assert status == 0
    assert "[red]:smile:" in screen
    assert "…" in screen
    assert json_text not in screen


def test_cleanup_shows_its_progress_and_ends_with_the_count(terminal, program, task):
    with open_store(load()) as store:
        scope = TaskScope("etl", "r1", "load")
        store.execute(RegisterTask(scope))
        past = datetime.now(UTC) - timedelta(days=1)
        for number in range(5):
            store.execute(Set(scope, str(number), "1", ApiWriter("ann"), past))

    status, screen = terminal("state-store", "clean", "--batch-size", "2")

    assert status == 0
    assert "Deleting expired entries" in screen
    assert screen.endswith("5 rows deleted.\r\n")


def test_settings_are_shown_above_their_meaning(terminal, project):
    status, screen = terminal("config", "list")

    assert status == 0
    assert "core.home = .holdfast  (default)\r\n    Directory of the embedded database." in screen
    assert max(len(line) for line in screen.splitlines() if line.startswith("    ")) <= 100
