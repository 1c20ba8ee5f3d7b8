"""SIGKILL of any part of a standalone system: each event counts once."""

from __future__ import annotations

import shutil
import signal
import time
from pathlib import Path
from random import Random

import pytest
from victims import Project

from holdfast import commands as c
from holdfast.accessor.asset_store import AssetStore
from holdfast.errors import UnknownAsset
from holdfast.model.entry import ApiWriter
from holdfast.model.run import RunState
from holdfast.model.scope import AssetScope
from holdfast.stores.sql import SqlStore

pytestmark = pytest.mark.chaos

PIPELINE = Path(__file__).parent / "pipelines" / "inbox.py"
KINDS = ("scheduler", "triggerer", "supervisor", "launcher", "child", "standalone")
FILES = 30
LONGEST = 120.0


def sum_in(store: SqlStore) -> int:
    try:
        accessor = AssetStore(store, AssetScope(name="total"), ApiWriter("test"))
        return int(accessor.get("sum", 0))
    except UnknownAsset:
        return 0


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "seed" in metafunc.fixturenames:
        rounds = int(metafunc.config.getoption("--rounds"))
        metafunc.parametrize("seed", range(3 if rounds == 1 else 30))


def test_each_file_is_counted_once_whatever_is_killed(seed: int, tmp_path: Path) -> None:
    random, project = Random(seed), Project(tmp_path)
    victims = [KINDS[2 * seed % len(KINDS)], KINDS[(2 * seed + 1) % len(KINDS)]]
    dags, inbox = tmp_path / "dags", tmp_path / "dags" / "inbox"
    inbox.mkdir(parents=True)
    shutil.copy(PIPELINE, dags)
    standalone = project.start("standalone", "dags")
    store = SqlStore(f"sqlite:///{tmp_path / '.holdfast' / 'holdfast.db'}")

    for number in range(FILES):
        part = inbox / f"{number:04}.part"
        part.write_text(str(number))
        part.rename(inbox / f"{number:04}.txt")
        if number in (FILES // 3, 2 * FILES // 3):
            victim = victims.pop()
            project.kill(victim, timeout=20)
            if victim == "standalone":
                standalone.wait(60)
                standalone = project.start("standalone", "dags")
        time.sleep(random.uniform(0.0, 0.3))
    project.wait_until(lambda: sum_in(store) == sum(range(FILES)), LONGEST)
    time.sleep(1)
    standalone.send_signal(signal.SIGTERM)
    standalone.wait(60)

    assert sum_in(store) == sum(range(FILES))
    events = store.execute(c.ListAssetEvents(AssetScope(name="files")))
    assert sorted(event.number for event in events) == list(range(1, FILES + 1))
    runs = store.execute(c.ListRuns(dag_id="adding"))
    assert {run.state for run in runs} <= {RunState.SUCCESS}
    assert project.leftovers() == []
    store.close()
