"""Signs of life of real schedulers and triggerers, and the commands that check them."""

from __future__ import annotations

import json
import socket

import pytest
from project import Project, Result, wait_until

from holdfast import commands as c

SHORT_LEASE = """
    from datetime import timedelta
    from holdfast.runner.protocol import parameters
    from holdfast.runner.service import sign_of_life
    parameters.LEASE = sign_of_life.LEASE = timedelta(seconds=3)
    sign_of_life.INTERVAL = 0.5
    """


def alive(project: Project) -> set[str]:
    return {one.kind.value for one in project.store.execute(c.ListServices()) if one.alive}


def checks(project: Project) -> tuple[Result, Result]:
    return project.holdfast("scheduler", "check"), project.holdfast("triggerer", "check")


@pytest.mark.full
def test_services_are_alive_until_they_stop_or_are_killed(project: Project) -> None:
    project.path("dags").mkdir()
    project.write("short/sitecustomize.py", SHORT_LEASE)
    short = {"PYTHONPATH": str(project.path("short"))}
    before = project.holdfast("scheduler", "check")
    with project.service("scheduler", "dags", **short) as scheduler:
        with project.service("triggerer", **short):
            wait_until(lambda: alive(project) == {"scheduler", "triggerer"})
            both = checks(project)
            here = socket.gethostname()
            named = project.holdfast("scheduler", "check", "--here", "--json")
            elsewhere = project.holdfast("triggerer", "check", "--host", "elsewhere")
        scheduler.kill()
        scheduler.wait()
        wait_until(lambda: not alive(project))
        lost, stopped = checks(project)

    assert before.status == 1 and before.err.startswith("error: no scheduler is alive\nhint: ")
    assert [one.status for one in both] == [0, 0]
    [document] = json.loads(named.out)["schedulers"]
    assert (document["alive"], document["hostname"]) == (True, here)
    assert (elsewhere.status, elsewhere.out) == (1, "")
    assert elsewhere.err.startswith("error: no triggerer on host `elsewhere` is alive\n")
    assert lost.status == 1 and "is alive; the last one was seen " in lost.err
    assert f"{here}\t{scheduler.pid}\tlost\t" in lost.out
    assert (stopped.status, stopped.out) == (1, "")
    assert stopped.err.startswith("error: no triggerer is alive\n")
