"""Each example does what its docstring says, through crashes where it speaks of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from scripts import EXAMPLES, Script

import holdfast

Start = Callable[..., Script]
Run = Callable[..., list[str]]


def test_every_example_has_a_test() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")

    assert [file.stem for file in EXAMPLES.glob("*.py") if f'("{file.stem}"' not in tested] == []


def test_a_job_is_submitted_once_although_its_watcher_was_killed(start: Start, run: Run) -> None:
    killed = start("external_job")
    killed.read_until("submitted app_1")
    killed.kill()

    assert run("external_job") == ["found app_1", "app_1 is done, seen by attempt 2"]
    assert run("external_job") == ["found app_1", "app_1 is done, seen by attempt 3"]
    assert [file.name for file in Path("cluster").iterdir()] == ["app_1"]


def rows_in(files: str) -> list[Any]:
    """The rows of all pages, in order."""
    return [
        row for file in sorted(Path("pages").glob(files)) for row in json.loads(file.read_text())
    ]


def test_an_ingest_goes_on_at_its_cursor(start: Start, run: Run) -> None:
    killed = start("paginated_ingest")
    killed.read_until("page 7")
    killed.kill()

    first, *pages = run("paginated_ingest")

    begin = int(first.removeprefix("attempt 2 begins at "))
    assert begin >= 8
    assert pages == [f"page {page}" for page in range(begin, 20)]
    assert rows_in("*.json") == list(range(200))


def test_each_region_goes_on_at_its_own_cursor(start: Start, run: Run) -> None:
    killed = start("paginated_ingest_async")
    killed.read_until("south page 4")
    killed.kill()

    lines = run("paginated_ingest_async")

    for region in ("east", "north", "south"):
        first, *pages = [line for line in lines if line.startswith(region)]
        begin = int(first.removeprefix(f"{region} begins at "))
        assert begin >= 3
        assert pages == [f"{region} page {page}" for page in range(begin, 10)]
        assert rows_in(f"{region}-*.json") == [f"{region}-{row}" for row in range(100)]


def test_a_watermark_moves_only_with_success(start: Start, run: Run) -> None:
    assert run("watermark", "r1", "2026-01-02") == ["loaded 2 days since the beginning"]
    failing = start("watermark", "r2", "2026-01-05", "--fail")
    assert failing.finish() == 1
    assert failing.lines == ["loaded 3 days since 2026-01-02", "failed before the end"]

    with holdfast.connect() as connection:
        assert connection.asset_store(name="orders").get("watermark") == "2026-01-02"

    assert run("watermark", "r3", "2026-01-06") == ["loaded 4 days since 2026-01-02"]
    assert run("watermark", "r4", "2026-01-06") == ["loaded 0 days since 2026-01-06"]


def test_progress_is_seen_from_outside(start: Start) -> None:
    script = start("progress")
    seen = []
    with holdfast.connect() as connection:
        store = connection.task_store("sales", "2026-01-31", "rebuild")
        store.set("watched", True)  # it makes the task known, whoever comes first
        while (done := store.get("progress", {"done": 0})["done"]) < 30:
            seen.append(done)

    assert script.finish() == 0
    assert len(set(seen)) > 5
    assert seen == sorted(seen)


def test_a_backend_of_files(run: Run) -> None:
    assert run("custom_backend") == [
        "2026-01-31",
        "the backend FileBackend cannot do `History`",
    ]
    entries = [json.loads(file.read_text()) for file in Path("values").rglob("*.json")]
    assert sorted((entry["scope"], entry["key"], entry["value"]) for entry in entries) == [
        ("asset `orders`", "watermark", '"2026-01-31"'),
        ("task sales/2026-01-31/load", "job_id", '"app_17"'),
    ]
