"""Links between the processes of a runner, with the test at one end."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from queue import Queue
from typing import Any, cast

import pytest

from holdfast.model.dag import AssetSpec, WatcherSpec
from holdfast.runner.launcher.launcher import Launch
from holdfast.runner.protocol.orders import Notice, WatchAsset
from holdfast.runner.service import supervisor_link
from holdfast.runner.service.supervisor_link import SupervisorLink, _listen
from holdfast.runner.supervisor.attempt import Resources
from holdfast.runner.supervisor.launcher_link import LauncherGone, LauncherLink
from holdfast.runner.supervisor.watcher import Watching
from holdfast.settings import load
from holdfast.wire.channel import NOTICE, ORDER, Channel, encode


def test_a_launcher_ends_silently_when_its_supervisor_dies_with_notices_unread() -> None:
    ours, its = socket.socketpair()
    launcher = subprocess.Popen(
        [sys.executable, "-m", "holdfast.runner.launcher", str(its.fileno())],
        pass_fds=[its.fileno()],
        stderr=subprocess.PIPE,
        text=True,
    )
    its.close()
    of_child, child = socket.socketpair()
    with of_child, child:
        Channel(ours).send_with(ORDER, encode(Launch(1)), [child.fileno()])
    assert ours.recv(1, socket.MSG_PEEK)

    ours.close()

    _, said = launcher.communicate(timeout=60)
    assert said == ""
    assert launcher.returncode == 0


def test_a_launcher_that_was_closed_starts_no_other_launcher() -> None:
    launcher = LauncherLink()
    launcher.close()

    with pytest.raises(LauncherGone):
        launcher.launch()


def test_a_supervisor_that_sends_an_invalid_message_counts_as_dead() -> None:
    ours, its = socket.socketpair()
    notices: Queue[Notice | None] = Queue()
    with subprocess.Popen(["sleep", "600"]) as supervisor, its, ours:
        Channel(its).send(NOTICE, b"garbage")

        _listen(supervisor, Channel(ours), notices, load())

        assert supervisor.returncode == -signal.SIGKILL
        assert notices.get_nowait() is None


def test_a_supervisor_that_hangs_is_killed_when_it_has_to_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(supervisor_link, "SILENCE", 1.0)
    link = SupervisorLink(load())
    pid = link._popen.pid
    os.kill(pid, signal.SIGSTOP)

    link.stop()

    assert link._popen.returncode == -signal.SIGKILL


def test_a_bug_in_the_supervision_of_a_watcher_is_a_failure_that_is_retried() -> None:
    order = WatchAsset("dag.py", "d", WatcherSpec(AssetSpec("landed", "file:///landed"), "landing"))
    watching = Watching(order, Resources(*cast(Any, [None] * 6)), on_failure=lambda: None)

    assert "AttributeError" in watching._watch_once()
