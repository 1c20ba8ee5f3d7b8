"""The notebook about the store, from its first cell to its last."""

from __future__ import annotations

from pathlib import Path

import pytest
from scripts import EXAMPLES, Program


@pytest.mark.full
def test_every_cell_of_the_notebook_runs(started: list[Program]) -> None:
    program = Program(str(EXAMPLES / "insights" / "insights.py"))
    started.append(program)

    status = program.finish()

    said = "\n".join(program.lines)
    assert status == 0, said
    assert "|customers|2026-03-09 02:28" in said  # how fresh
    assert "|  shop|   join|" in said  # how slow
    assert "|2026-02-27|        27|" in said  # which watermark is stale
    assert "|2026-03-28|    112| 4732|          1624|" in said  # how much there is
    plots = sorted(file.name for file in Path("insights").iterdir())
    assert plots == ["growth.png", "slowest-tasks.png"]
