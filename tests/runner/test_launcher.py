"""The launcher of task processes: loaded modules, and a machine without room for another one."""

from __future__ import annotations

import re
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
from project import wait_until

from holdfast.model.run import Run, RunKind, RunState
from holdfast.process import has_ended
from holdfast.runner.protocol.messages import (
    STARTUP,
    CallbackStartup,
    Done,
    Failed,
    Parsed,
    ParseStartup,
    Report,
    Startup,
    report_decoder,
)
from holdfast.runner.supervisor.launcher_link import Child, LauncherGone, LauncherLink
from holdfast.wire.channel import encode


@pytest.fixture
def link() -> Iterator[LauncherLink]:
    """Yield the link to a launcher that may have few open files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (40, hard))
    try:
        link = LauncherLink()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    yield link
    link.close()


def test_the_launcher_has_loaded_the_modules_of_its_children() -> None:
    code = "import sys, holdfast.runner.launcher.__main__; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    needed = {f"holdfast.runner.task.{name}" for name in ("child", "dag_import", "execution")}
    assert needed <= set(done.stdout.split())


def test_a_process_that_cannot_be_started_ends_no_other(link: LauncherLink) -> None:
    children: list[Child] = []
    with pytest.raises(LauncherGone, match="no process can be started: Too many open files"):
        for _ in range(100):
            children.append(link.launch())

    assert len(children) > 5
    assert not any(has_ended(child.process) for child in children if child.process)

    children[0].kill()
    children[0].wait()
    children[1].kill()
    children[1].wait()
    children.append(link.launch())
    for child in children:
        child.channel.close()


def test_a_log_for_which_there_is_no_descriptor_ends_no_child(
    link: LauncherLink, tmp_path: Path
) -> None:
    children: list[Child] = []
    with pytest.raises(LauncherGone, match="Too many open files"):
        for _ in range(100):
            children.append(link.launch())

    for number, child in enumerate(children):
        child.log_to(tmp_path / f"{number}.log")
    children[0].kill()

    assert children[0].wait(timeout=10)
    assert children[0].status == -signal.SIGKILL
    assert not any(has_ended(child.process) for child in children[1:] if child.process)
    for child in children:
        child.channel.close()


def test_programs_that_a_task_runs_do_not_inherit_its_connection(
    link: LauncherLink, tmp_path: Path
) -> None:
    file = tmp_path / "dag.py"
    file.write_text(
        "import os\n"
        "numbers = [int(name) for name in os.listdir('/proc/self/fd')]\n"
        "opened = [number for number in numbers if os.path.exists(f'/proc/self/fd/{number}')]\n"
        "raise ValueError(f'inheritable: {[n for n in opened if os.get_inheritable(n)]}')\n"
    )

    with link.launch() as child:
        child.channel.send(STARTUP, encode(ParseStartup(str(file))))
        frame = child.channel.receive()

    assert frame is not None
    report = report_decoder.decode(frame[1])
    assert isinstance(report, Parsed) and "inheritable: [0, 1, 2]" in report.error


def has_pending_sigterm(pid: int) -> bool:
    """Return whether the process has got a SIGTERM that it blocks."""
    status = Path(f"/proc/{pid}/status").read_text()
    pending = re.findall(r"^(?:SigPnd|ShdPnd):\s*([0-9a-f]+)", status, re.MULTILINE)
    return any(int(mask, 16) >> (signal.SIGTERM - 1) & 1 for mask in pending)


def report_after_sigterm(link: LauncherLink, startup: Startup) -> Report:
    """Return the report of a child that has got SIGTERM before its startup message."""
    with link.launch() as child:
        child.kill(signal.SIGTERM)
        assert child.process is not None
        pid = child.process.pid
        wait_until(lambda: has_pending_sigterm(pid))
        child.channel.send(STARTUP, encode(startup))
        frame = child.channel.receive()
    assert frame is not None
    return report_decoder.decode(frame[1])


def test_a_child_loses_no_sigterm_that_it_gets_before_its_startup(
    link: LauncherLink, tmp_path: Path
) -> None:
    file = tmp_path / "slow.py"
    file.write_text("import time\ntime.sleep(60)\n")

    report = report_after_sigterm(link, ParseStartup(str(file)))

    assert isinstance(report, Failed) and report.got_sigterm


def test_callbacks_are_called_though_sigterm_comes_before_their_startup(
    link: LauncherLink, tmp_path: Path
) -> None:
    file, called = tmp_path / "dag.py", tmp_path / "called"
    file.write_text(
        "from holdfast.sdk import DAG\n"
        f"DAG('d', on_success_callback=lambda context: open({str(called)!r}, 'w').close())\n"
    )
    run = Run(
        dag_id="d",
        run_id="r",
        kind=RunKind.MANUAL,
        state=RunState.SUCCESS,
        logical_date=None,
        data_interval_start=None,
        data_interval_end=None,
        conf="{}",
        created_at=datetime.now(UTC),
    )

    report = report_after_sigterm(link, CallbackStartup(file=str(file), run=run, kind="success"))

    assert report == Done()
    assert called.exists()
