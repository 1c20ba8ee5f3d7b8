"""The launcher and its link, with the test as the supervisor."""

from __future__ import annotations

import socket
import subprocess
import sys

import pytest

from holdfast.runner.channel import ORDER, Channel, encode
from holdfast.runner.launcher import Launch
from holdfast.runner.nursery import LauncherGone, Nursery


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


def test_a_nursery_that_was_closed_starts_no_other_launcher() -> None:
    nursery = Nursery()
    nursery.close()

    with pytest.raises(LauncherGone):
        nursery.launch()
