"""The warning of a scheduler or triggerer whose disk has no room for the output of tasks."""

from __future__ import annotations

import logging
import time

import pytest

from holdfast.model.service import ServiceKind
from holdfast.runner.service import disk_watch
from holdfast.runner.service.disk_watch import DiskWatch
from holdfast.server.disk import LEAST_FREE
from holdfast.settings import load


@pytest.fixture
def free(monkeypatch):
    """Return the free space of a disk, to be changed."""
    space = {"home": LEAST_FREE}
    monkeypatch.setattr(disk_watch, "free_space", lambda settings: dict(space))
    return space


def test_a_full_disk_is_reported_once_and_so_is_its_end(tmp_path, free, caplog):
    watch = DiskWatch(load(tmp_path, {}), ServiceKind.SCHEDULER)
    for size in (LEAST_FREE, LEAST_FREE - 1, 0, LEAST_FREE, LEAST_FREE + 1):
        free["home"] = size
        watch.look()
    free.clear()  # it does not answer
    watch.look()

    home = tmp_path / ".holdfast"
    assert [one.getMessage() for one in caplog.records] == [
        f"less than 64 MB are free for {home}: when it is full, what tasks print is lost",
        f"64 MB or more are free for {home} again",
    ]
    assert {(one.name, one.levelno) for one in caplog.records} == {
        ("holdfast.scheduler", logging.WARNING)
    }


def test_it_looks_until_it_is_stopped(tmp_path, free, caplog, monkeypatch):
    monkeypatch.setattr(disk_watch, "INTERVAL", 0.01)
    watch = DiskWatch(load(tmp_path, {}), ServiceKind.TRIGGERER)
    watch.start()
    free["home"] = 0
    deadline = time.monotonic() + 30
    while not caplog.records and time.monotonic() < deadline:
        time.sleep(0.01)
    watch.stop()

    assert [one.name for one in caplog.records] == ["holdfast.triggerer"]
