"""Attempts killed while Spark commits: each row is present once."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections import Counter
from pathlib import Path
from random import Random
from threading import Lock

import pytest
from victims import Project
from webhdfs import web_hdfs

pytestmark = pytest.mark.chaos

PIPELINE = Path(__file__).parent / "pipelines" / "committing.py"
PARTS = 2
ROWS = 40
STEPS = re.compile(r"_temporary/0(/task_\w+)?$|/part-[^/]+$")
"""Steps of a commit: set-up of the job, commit of a task's files, commit of a file of the job."""
KILLED = 0.3
"""Number of kills at each of these steps."""
LONGEST_STEP = 3.0


class Killer:
    """Kills attempts while Spark writes for them, and slows down the steps that follow."""

    def __init__(self, directory: Path, kills: int) -> None:
        self._directory = directory
        self._random = Random(kills)
        self._kills = kills
        self._lock = Lock()
        self.killed: set[int] = set()

    def before(self, path: str) -> None:
        if not STEPS.search(path):
            return
        part = path.split("part=")[1][0]
        process = int((self._directory / f"process-{part}").read_text())
        with self._lock:
            enough = len(self.killed) == self._kills
            if enough or process in self.killed or self._random.random() > KILLED:
                return
            self.killed.add(process)
            pause = self._random.uniform(0, LONGEST_STEP)
        os.kill(process, signal.SIGKILL)
        time.sleep(pause)


@pytest.mark.full
def test_attempts_killed_while_spark_commits_leave_each_row_once(
    tmp_path: Path, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = tmp_path / "files"
    files.mkdir()
    shutil.copy(PIPELINE, tmp_path)
    kills, chunks = 4 * rounds, 3 + rounds
    project, killer = Project(tmp_path), Killer(tmp_path, kills)
    monkeypatch.setenv("CHUNKS", str(chunks))

    with web_hdfs(files, killer.before) as place:
        monkeypatch.setenv("COMMITS", place.url)
        run = project.start("run", "committing.py")
        assert run.wait(120 + 10 * kills) == 0, project.output()

    lines = [line for path in files.rglob("*.json") for line in path.read_text().splitlines()]
    assert Counter(json.loads(line)["id"] for line in lines) == Counter(
        range(PARTS * chunks * ROWS)
    )
    assert len(killer.killed) == kills
    assert project.leftovers() == []
