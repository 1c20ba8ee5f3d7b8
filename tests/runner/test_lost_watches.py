"""Watches taken by another process: released, and resumed when they are free."""

from __future__ import annotations

import signal
import time
from datetime import timedelta

import landing
import pytest
from project import Project, send_signal, wait_until

from holdfast import commands as c
from holdfast.model.entry import WatcherWriter
from holdfast.model.run import EmittedEvent, Process, Watch, WatchInfo
from holdfast.model.scope import AssetScope

LANDED = AssetScope(name="landed")
ANOTHER = Process("another machine", 1, "1")
SHORT_LEASE = """
    from datetime import timedelta
    from holdfast.runner.protocol import parameters
    parameters.LEASE = timedelta(seconds=3)
    """


def newest(project: Project) -> WatchInfo:
    [info] = project.store.execute(c.ListWatches())
    return info


def take(project: Project, dead: Process | None = None) -> Watch:
    """Start the watch of another triggerer, for a short time."""
    return project.store.execute(
        c.StartWatch(
            asset=LANDED,
            watcher="landing",
            process=ANOTHER,
            lease=timedelta(seconds=2),
            dead=dead,
        )
    )


def report(project: Project, watch: Watch, name: str) -> None:
    """Report an event as the watcher in the DAG file does when it sees a file."""
    cursor = c.Set(LANDED, "cursor", f'"{name}"', WatcherWriter())
    event = EmittedEvent("landed", "file:///landed", f'{{"payload":{{"file":"{name}"}}}}')
    project.store.execute(c.Emit(watch, (cursor,), event))


def seen(project: Project) -> list[str]:
    return [extra["payload"]["file"] for extra in project.events("landed")]


def prepare(project: Project) -> None:
    """Save the DAG, and let one file land."""
    project.write("dag.py", landing.DAG)
    project.path("landing").mkdir()
    assert project.holdfast("run", "dag.py").status == 1  # no file has landed to be loaded
    project.path("landing/a").touch()


@pytest.mark.full
def test_a_watch_taken_by_another_process_is_resumed_when_it_is_free(project: Project) -> None:
    prepare(project)
    with project.service("triggerer"):
        wait_until(lambda: seen(project) == ["a"])
        report(project, take(project, dead=newest(project).owner), "b")
        for name in "bc":
            project.path(f"landing/{name}").touch()
        wait_until(lambda: newest(project).owner != ANOTHER)
        wait_until(lambda: len(seen(project)) == 3)

    assert seen(project) == ["a", "b", "c"]
    assert newest(project).watch.number == 3
    assert "Traceback" not in project.read("triggerer.err")


@pytest.mark.full
def test_a_watch_whose_lease_expired_during_a_stop_is_resumed(project: Project) -> None:
    prepare(project)
    project.write("short/sitecustomize.py", SHORT_LEASE)
    with project.service("triggerer", PYTHONPATH=str(project.path("short"))):
        wait_until(lambda: seen(project) == ["a"])
        stopped = project.processes()
        send_signal(stopped, signal.SIGSTOP)
        try:
            wait_for_the_end_of_the_lease(project)
            watch = take(project)
            report(project, watch, "b")
            for name in "bc":
                project.path(f"landing/{name}").touch()
        finally:
            send_signal(stopped, signal.SIGCONT)
        wait_until(lambda: len(seen(project)) == 3)

    assert seen(project) == ["a", "b", "c"]
    assert newest(project).watch.number == watch.number + 1
    assert "Traceback" not in project.read("triggerer.err")


def wait_for_the_end_of_the_lease(project: Project) -> None:
    ends_at = newest(project).leased_until
    assert ends_at is not None
    time.sleep(max(ends_at.timestamp() - time.time(), 0) + 0.1)
