"""Export, import and copy from the command line."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["export"], "Missing argument 'DIR'"),
        (["copy", "--yes"], "Missing option '--to'"),
        (["import", "backup"], "in a script, add --yes"),
        (["export", "backup", "--asset", "a", "--dag-id", "d"], "both a task and an asset"),
        (
            ["import", "backup", "--yes", "--asset", "a", "--dag-id", "d"],
            "both a task and an asset",
        ),
        (["import", "backup", "--yes", "--assets", "--asset", "a"], "--assets selects all assets"),
        (
            [
                "copy",
                "--to",
                "sqlite:///other.db",
                "--yes",
                "--declare",
                "--asset",
                "a",
                "--asset-uri",
                "u",
            ],
            "both --asset and --asset-uri",
        ),
    ],
)
def test_bad_usage_is_an_error_without_starting_spark(
    holdfast: Callable[..., Any], arguments: list[str], said: str
) -> None:
    result = holdfast("state-store", *arguments)

    assert result.status == 2
    assert said in result.err


@pytest.mark.full
def test_a_filtered_export_can_be_imported(
    program: Callable[..., Any], task: tuple[str, ...], project: Path
) -> None:
    program("state-store", "set", *task, "cursor", "17")
    program("state-store", "set", "--asset", "orders", "--declare", "mark", "1")

    exported = program("state-store", "export", "out", "--dag-id", "etl", "--json")
    program("state-store", "delete", *task, "cursor", "--yes")
    imported = program("state-store", "import", "out", "--yes", "--json")

    assert (exported.status, imported.status) == (0, 0), exported.err + imported.err
    assert exported.err.startswith("Exported 1 entry of task_store, checksum ")
    table = json.loads(exported.out)["tables"]["task_store"]
    assert json.loads((project / "out" / "manifest.json").read_text())["tables"] == {
        "task_store": table
    }
    total = {"count": 1, "checksum": table["checksum"]}
    assert json.loads(imported.out) == {"tables": {"task_store": total}}
    assert program("state-store", "get", *task, "cursor").out == "17\n"
