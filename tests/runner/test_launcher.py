"""The launcher of task processes: loaded modules, and a machine without room for another one."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Iterator

import pytest

from holdfast.process import has_ended
from holdfast.runner.supervisor.launcher_link import Child, LauncherGone, LauncherLink


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
