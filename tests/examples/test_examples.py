"""The examples, with crashes where they speak of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from scripts import EXAMPLES, RUN, Program, kill, wait_until

import holdfast
from holdfast.commands import GetResults, ListAttempts
from holdfast.model.run import AttemptInfo
from holdfast.model.scope import TaskScope

Start = Callable[..., Program]


class Seen:
    """Entries that a run of an example left in the stores."""

    def __init__(self, connection: holdfast.Connection) -> None:
        self.connection = connection

    def attempts(self, dag_id: str, task_id: str) -> list[AttemptInfo]:
        return list(self.connection.store.execute(ListAttempts(TaskScope(dag_id, RUN, task_id))))

    def outcomes(self, dag_id: str, task_id: str) -> list[str | None]:
        return [attempt.outcome for attempt in self.attempts(dag_id, task_id)]

    def result(self, dag_id: str, task_id: str, run_id: str = RUN) -> Any:
        [(_, text)] = self.connection.store.execute(GetResults(dag_id, run_id, task_id))
        return json.loads(text)

    def asset(self, name: str) -> dict[str, Any]:
        return dict(self.connection.asset_store(name=name).items())


@pytest.fixture
def seen(started: list[Program]) -> Iterator[Seen]:
    with holdfast.connect() as connection:
        yield Seen(connection)


def printed(dag_id: str, task_id: str, attempt: int) -> list[str]:
    log = Path(".holdfast", "logs", dag_id, RUN, task_id, f"{attempt}.log")
    return log.read_text().splitlines() if log.exists() else []


def rows_in(files: str) -> list[Any]:
    """Return the rows of all pages, in order."""
    return [
        row for file in sorted(Path("pages").glob(files)) for row in json.loads(file.read_text())
    ]


def test_every_example_has_a_test() -> None:
    tested = Path(__file__).read_text(encoding="utf-8")
    examples = [*EXAMPLES.glob("*.py"), *EXAMPLES.glob("scripts/*.py")]

    assert [file.stem for file in examples if f'"{file.stem}"' not in tested] == []


@pytest.mark.full
def test_jobs_are_submitted_once_although_the_run_was_killed(
    start: Start, run: Start, seen: Seen
) -> None:
    killed = start("external_job")
    wait_until(lambda: len(list(Path("cluster").glob("*"))) == 2)
    killed.kill()

    run("external_job")

    submitted = {file.name for file in Path("cluster").iterdir()}
    results = {seen.result("external_job", task) for task in ("aggregate", "export")}
    assert submitted == results
    assert seen.outcomes("external_job", "export") == ["interrupted", "success"]


@pytest.mark.full
def test_a_job_whose_id_was_never_stored_is_found(start: Start, run: Start, seen: Seen) -> None:
    store = seen.connection.task_store("external_job", RUN, "aggregate")
    killed = start("external_job")
    wait_until(lambda: len(list(Path("cluster").glob("*"))) == 2)
    killed.kill()
    store.delete("remote_job_id")

    run("external_job")

    assert len(list(Path("cluster").iterdir())) == 2
    assert store.get("remote_job_id") == seen.result("external_job", "aggregate")


@pytest.mark.full
def test_an_ingest_resumes_at_its_cursor(start: Start, run: Start) -> None:
    killed = start("paginated_ingest")
    wait_until(lambda: "page 7" in printed("paginated_ingest", "ingest", 1))
    killed.kill()

    run("paginated_ingest")

    pages = [line for line in printed("paginated_ingest", "ingest", 2) if line.startswith("page")]
    begin = int(pages[0].removeprefix("page "))
    assert begin >= 7
    assert pages == [f"page {page}" for page in range(begin, 20)]
    assert rows_in("*.json") == list(range(200))


@pytest.mark.full
def test_each_region_resumes_at_its_own_cursor(start: Start, seen: Seen) -> None:
    running = start("paginated_ingest_async")
    wait_until(lambda: "south page 4" in printed("paginated_ingest_async", "ingest", 1))
    [attempt] = seen.attempts("paginated_ingest_async", "ingest")
    assert attempt.worker is not None
    kill(attempt.worker.pid)

    assert running.finish() == 0, running.lines
    assert seen.outcomes("paginated_ingest_async", "ingest") == ["failed", "success"]
    assert 9 <= seen.result("paginated_ingest_async", "ingest") <= 21
    for region in ("east", "north", "south"):
        assert rows_in(f"{region}-*.json") == [f"{region}-{row}" for row in range(100)]


@pytest.mark.full
def test_progress_is_readable_by_other_processes(start: Start, seen: Seen) -> None:
    store = seen.connection.task_store("progress", RUN, "rebuild")
    counts: list[int] = []

    def note() -> bool:
        counts.append(store.get("progress", {"done_partitions": 0})["done_partitions"])
        return counts[-1] == 30

    running = start("progress")
    running.read_until("rebuild attempt 1 running")
    wait_until(note)

    assert running.finish() == 0
    assert len(set(counts)) > 5
    assert counts == sorted(counts)


def test_map_indices_move_one_watermark(run: Start, seen: Seen) -> None:
    run("mapped_tasks")

    assert seen.asset("orders") == {"newest_day": "2026-01-07"}
    assert seen.result("mapped_tasks", "report") == 16
    regions = [
        seen.connection.task_store("mapped_tasks", RUN, "load", index).get("region")
        for index in range(4)
    ]
    assert regions == ["east", "north", "south", "west"]


@pytest.mark.full
def test_a_watermark_moves_only_with_success(start: Start, seen: Seen) -> None:
    def load(run_id: str, conf: str) -> int:
        return start("watermark", "--run-id", run_id, "--conf", conf).finish()

    assert load("r1", '{"until": "2026-01-02"}') == 0
    assert load("r2", '{"until": "2026-01-05", "fail": true}') == 1
    assert seen.asset("orders") == {"watermark": "2026-01-02"}

    assert load("r3", '{"until": "2026-01-06"}') == 0
    assert seen.asset("orders") == {"watermark": "2026-01-06"}
    assert seen.result("watermark", "load", "r3") == {"since": "2026-01-02", "days": 4}


@pytest.mark.full
def test_a_killed_watcher_reports_each_file_exactly_once(serve: Start) -> None:
    def loaded() -> list[str]:
        lines = [file.read_text().split(" by ")[0] for file in Path("loaded").glob("*")]
        return sorted(lines)

    Path("inbox").mkdir()
    Path("inbox", "orders-1.csv").write_text("17\n")
    standalone = serve("standalone", "watcher")
    wait_until(lambda: loaded() == ["17"])

    parts = psutil.Process(standalone.pid).children()
    [triggerer] = [part for part in parts if "triggerer" in part.cmdline()]
    kill(triggerer.pid)
    Path("inbox", "orders-2.csv").write_text("18\n")
    wait_until(lambda: loaded() == ["17", "18"])

    standalone.stop()
    assert [len(file.read_text().splitlines()) for file in Path("loaded").iterdir()] == [1, 1]


@pytest.mark.full
def test_a_file_backend_stores_the_entries(run: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(EXAMPLES))
    monkeypatch.setenv("HOLDFAST__STATE_STORE__BACKEND", "custom_backend.FileBackend")

    run("custom_backend")

    entries = [json.loads(file.read_text()) for file in Path("values").rglob("*.json")]
    assert sorted((entry["scope"], entry["key"], entry["value"]) for entry in entries) == [
        ("asset `orders`", "watermark", '"2026-01-31"'),
        (f"task custom_backend/{RUN}/load", "job_id", '"app_17"'),
    ]


@pytest.mark.full
def test_a_written_asset_triggers_the_downstream_dag(serve: Start, seen: Seen) -> None:
    serve("scheduler", "asset_functions").read_until("invoices, revenue")

    assert Program("-m", "holdfast", "runs", "trigger", "invoices").finish() == 0

    wait_until(lambda: seen.asset("revenue") == {"from_rows": 3})
    assert json.loads(Path("revenue.json").read_text()) == 30


@pytest.mark.full
def test_a_script_resumes_where_it_was_killed(script: Start, seen: Seen) -> None:
    killed = script("nightly", "2026-01-31")
    killed.read_until("loaded orders-3.csv")
    killed.kill()
    assert seen.asset("orders") == {}

    again = script("nightly", "2026-01-31")

    assert again.finish() == 0
    assert again.lines[-1] == "loaded orders-7.csv"
    assert len(again.lines) <= 4
    assert seen.asset("orders") == {"watermark": "2026-01-31"}


@pytest.mark.full
def test_every_way_of_writing_a_load_has_each_row_once(run: Start, seen: Seen) -> None:
    run("incremental_loads", "--conf", '{"orders": 100}')
    run("incremental_loads", "--conf", '{"orders": 130}', "--run-id", "second")

    def result(task_id: str, run_id: str) -> Any:
        return seen.result("incremental_loads", task_id, run_id)

    ways = [
        *("save", "insert_with_sql", "merge_through_a_view", "replace_partitions"),
        *("write_to_several_sinks", "load_in_steps"),
    ]
    assert {way: result(way, "second") for way in ways} == dict.fromkeys(ways, 130)
    assert result("write_to_a_database", "second") == 30
    assert result("check_the_rows", RUN) == 15
    assert result("check_the_rows", "second") == 4
