"""Identification of processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

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


def test_a_process_may_have_any_bytes_as_its_name() -> None:
    code = """if True:
        import ctypes, sys
        ctypes.CDLL(None).prctl(15, b"\\xff) (\\xc3", 0, 0, 0)
        print("named", flush=True)
        sys.stdin.read()
        """
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as named:
        assert named.stdout is not None and named.stdout.readline() == "named\n"
        identity = process.identify(named.pid)

        assert identity.started and not process.has_ended(identity)
        named.communicate()

    assert process.has_ended(identity)


HIDDEN = """
import os, subprocess, sys
from holdfast import process

code = "from holdfast import process; process.hide_this_process(); print(1, flush=True); input()"
with subprocess.Popen([sys.executable, "-c", code], stdin=-1, stdout=-1) as child:
    started = process.identify(child.pid)
    child.stdout.readline()
    print(os.path.exists(f"/proc/{child.pid}"), process.has_ended(started))
    child.communicate(b"\\n")
print(process.has_ended(started))
"""


@pytest.mark.skipif(os.getuid() != 0, reason="only root can mount /proc")
def test_a_process_that_proc_hides_has_not_ended() -> None:
    mount = "mount -t proc -o hidepid=2 proc /proc || exit 99"
    drop = 'exec setpriv --regid=65534 --clear-groups --bounding-set=-all --inh-caps=-all "$@"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", f"{mount}; {drop}", "sh", sys.executable, "-c", HIDDEN],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode == 99:
        pytest.skip(f"/proc cannot be mounted here: {done.stderr}")

    assert done.stdout.split() == ["False", "False", "True"], done.stderr


@pytest.fixture
def _hangup() -> Iterator[None]:
    before = signal.getsignal(signal.SIGHUP)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.usefixtures("_hangup")
def test_a_hangup_counts_once() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    calls: list[str] = []
    process.call_on_signals([signal.SIGHUP], lambda: calls.append("called"))

    os.kill(os.getpid(), signal.SIGHUP)
    os.kill(os.getpid(), signal.SIGHUP)

    assert calls == ["called"]


@pytest.mark.usefixtures("_hangup")
def test_a_hangup_that_nohup_ignores_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    calls: list[str] = []
    process.call_on_signals([signal.SIGHUP], lambda: calls.append("called"))

    os.kill(os.getpid(), signal.SIGHUP)

    assert calls == []
