"""Identification of processes."""

from __future__ import annotations

import os

import msgspec
import pytest

from holdfast import process


@pytest.fixture(autouse=True)
def _forgetful() -> None:
    process._host.cache_clear()
    process.this_process.cache_clear()


def test_a_pid_of_another_process_namespace_is_not_a_local_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here = process.this_process()
    gone = msgspec.structs.replace(here, started="before")
    assert process.has_ended(gone) and not process.has_ended(here)

    monkeypatch.setattr(os, "readlink", lambda path: "pid:[1]")
    process._host.cache_clear()
    there = process.identify(os.getpid())

    assert there.host != here.host
    assert not process.has_ended(gone)
