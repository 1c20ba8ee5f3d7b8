"""The flights pipeline on a few days of two months, directly and through a server."""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from scripts import EXAMPLES

sys.path.insert(0, str(EXAMPLES / "flights"))
from workplace import Day, Workplace

from holdfast.connection import open_store
from holdfast.server.embedded import EmbeddedServer
from holdfast.settings import load
from server import spark_server

FEBRUARY = 1
"""Its map index."""


class Scene:
    """Landing directory, and projects in which the pipeline runs on the landed files."""

    def __init__(self, directory: Path, remote: str, stack: ExitStack) -> None:
        self._directory = directory
        self._remote = remote
        self._stack = stack
        context = multiprocessing.get_context("spawn")
        self._spark = stack.enter_context(ProcessPoolExecutor(1, mp_context=context))

    def land(self, condition: str) -> int:
        return int(self._call("land_days", self._directory, condition))

    def place(self, name: str) -> Workplace:
        place = Workplace(self._directory / name, self._directory / "landing", self._remote)
        return self._stack.enter_context(place)

    def place_through_server(self, name: str) -> Workplace:
        """Return a project whose workers have no database, but the URL of a server."""
        place = self.place(name)
        settings = load(self._directory, {"HOLDFAST__CORE__HOME": str(place.directory)})
        server = EmbeddedServer(self._stack.enter_context(open_store(settings)), settings)
        self._stack.callback(server.close)
        place.environment["HOLDFAST__WORKERS__SERVER_URL"] = server.url
        return place

    def tables(self, place: Workplace) -> Any:
        return self._call("fingerprints", place.warehouse)

    def _call(self, name: str, *arguments: Any) -> Any:
        return self._spark.submit(call, name, self._remote, *arguments).result()


def call(name: str, *arguments: Any) -> Any:
    import flights_on_spark

    return getattr(flights_on_spark, name)(*arguments)


def of_february(place: Workplace) -> list[Day]:
    return [day for day in place.days("first") if day.map_index == FEBRUARY]


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    for name in list(os.environ):
        if name.startswith("HOLDFAST"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    with spark_server(tmp_path / "spark") as remote, ExitStack() as stack:
        yield Scene(tmp_path, remote, stack)


@pytest.mark.full
def test_a_killed_pipeline_gives_the_same_tables_and_later_reads_only_new_flights(
    scene: Scene,
) -> None:
    scene.land("date BETWEEN '2013-01-31' AND '2013-02-05'")
    undisturbed, killed = scene.place("undisturbed"), scene.place_through_server("killed")
    undisturbed.run("first")

    killed.begin("first")
    killed.wait_until(lambda: len(of_february(killed)) >= 2)
    worker = killed.attempts("first", FEBRUARY)[-1].worker
    assert worker is not None
    os.kill(worker.pid, signal.SIGKILL)
    recorded = of_february(killed)
    killed.finish()

    died, resumed = killed.attempts("first", FEBRUARY)
    assert (died.signal, resumed.outcome) == (signal.SIGKILL, "success")
    assert [day for day in of_february(killed) if day.attempt == 1] == recorded
    assert len(of_february(killed)) == 5
    assert scene.tables(killed) == scene.tables(undisturbed)

    landed = scene.land("date = '2013-02-06'")
    killed.run("second")

    assert [(day.day, day.rows) for day in killed.days("second")] == [("2013-02-06", landed)]
    assert killed.result("second", "clean")["since"] == "2013-02-05"
    assert killed.result("second", "clean")["rows"] == landed
    assert scene.tables(killed)["raw"].days == 7
