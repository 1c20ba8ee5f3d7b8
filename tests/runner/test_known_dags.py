"""The scheduler's knowledge of its DAG files, without processes: the test answers the imports."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast import commands as c
from holdfast.errors import StoreUnavailable
from holdfast.model.dag import DagSpec
from holdfast.runner.protocol.messages import Parsed
from holdfast.runner.protocol.orders import FileParsed
from holdfast.runner.scheduler import known_dags
from holdfast.runner.scheduler.conductor import Conductor
from holdfast.runner.scheduler.dag_files import DagDirectory
from holdfast.runner.scheduler.known_dags import KnownDags
from holdfast.stores.sql import SqlStore

TEXT = "# holdfast DAG\n"


class Importer:
    """Stub of a conductor: imports end when the test gives their outcome."""

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self.runs: dict[Any, Any] = {}
        self.asked: list[str] = []
        self._parsed: list[FileParsed] = []

    def parse(self, file: str) -> None:
        self.asked.append(Path(file).name)

    def parsed(self) -> list[FileParsed]:
        parsed, self._parsed = self._parsed, []
        return parsed

    def answer(self, path: Path, *dag_ids: str, error: str = "") -> None:
        dags = tuple(DagSpec(dag_id=one, file=str(path), tasks=()) for one in dag_ids)
        self.give(FileParsed(str(path), Parsed(dags=dags, error=error)))

    def give(self, parsed: FileParsed) -> None:
        self.asked.remove(Path(parsed.file).name)
        self._parsed.append(parsed)


class Site:
    def __init__(self, tmp_path: Path, store: SqlStore) -> None:
        self.directory = tmp_path / "dags"
        self.directory.mkdir()
        self.store = store
        self.store_file = tmp_path / "store.db"
        self.importer = Importer(store)
        self.known = self.scheduler()

    def scheduler(self, directory: Path | None = None) -> KnownDags:
        conductor = cast(Conductor, self.importer)
        files = DagDirectory(directory or self.directory)
        return KnownDags(conductor, files, timedelta(minutes=10))

    def path(self, name: str) -> Path:
        return self.directory / name

    def hold(self, name: str, *dag_ids: str, error: str = "") -> None:
        """Write a file, and let it be imported."""
        self.path(name).write_text(TEXT + f"# {dag_ids} {error}\n")
        self.known.look()
        self.importer.answer(self.path(name), *dag_ids, error=error)
        self.known.save()

    def holders(self) -> dict[str, str]:
        return {info.dag_id: info.file for info in self.store.execute(c.ListDags())}

    def errors(self) -> dict[str, str]:
        return {one.file: one.error for one in self.store.execute(c.ListFiles()) if one.error}


def unsee(site: Site, *dag_ids: str) -> None:
    """Let it be long ago that a scheduler saw these DAGs."""
    with sqlite3.connect(site.store_file) as database:
        for dag_id in dag_ids:
            long_ago = "UPDATE hf_dag SET seen_at = seen_at - 31000000 WHERE dag_id = ?"
            database.execute(long_ago, (dag_id,))
    database.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    with SqlStore(f"sqlite:///{tmp_path / 'store.db'}") as store:
        yield Site(tmp_path, store)


@pytest.fixture
def forward(monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
    """Let seconds pass by the scheduler's clock."""
    now = [1000.0]
    monkeypatch.setattr(known_dags.time, "monotonic", lambda: now[0])

    def move(seconds: float) -> None:
        now[0] += seconds

    return move


def test_a_failed_import_is_retried(
    forward: Callable[[float], None], site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.hold("a.py", "sales")
    site.hold("a.py", error="ConnectionError: no warehouse")
    broken = dict(site.known.dags)
    site.known.look()
    at_once = list(site.importer.asked)

    for times in (1, 2):
        forward(times * known_dags.FIRST_RETRY_PAUSE)
        site.known.look()
        site.importer.answer(site.path("a.py"), error="ConnectionError: no warehouse")
        site.known.save()
    told = [one for one in caplog.messages if "cannot be used" in one]
    forward(3 * known_dags.FIRST_RETRY_PAUSE)
    site.known.look()
    seldom = list(site.importer.asked)
    forward(known_dags.FIRST_RETRY_PAUSE)
    site.known.look()
    site.importer.answer(site.path("a.py"), "sales")
    site.known.save()

    assert (broken, at_once, len(told), seldom) == ({}, [], 1, [])
    assert list(site.known.dags) == ["sales"]
    assert site.errors() == {}


def test_a_dag_in_two_files_stays_with_the_first_until_it_is_removed_there(site: Site) -> None:
    site.hold("a.py", "sales", "stock")
    site.hold("b.py", "sales")
    clash = site.errors()
    site.hold("a.py", "stock")

    assert clash == {
        "b.py": "DAG `sales` of b.py is already in a.py\n"
        "hint: give one of them another dag_id, or remove it from the other file; if another "
        "scheduler read it and has stopped, retry in half a minute"
    }
    assert site.errors() == {}
    assert site.holders() == {"sales": "b.py", "stock": "a.py"}


def test_dags_that_the_store_has_lost_are_saved_again(
    forward: Callable[[float], None], site: Site
) -> None:
    site.hold("a.py", "sales")
    site.known.look()
    site.store.execute(c.PauseDag("sales", True))
    site.store.execute(c.ForgetFile("a.py", ("sales",)))  # such as by a scheduler elsewhere

    forward(known_dags.REPORT_INTERVAL)
    site.known.look()
    site.importer.answer(site.path("a.py"), "sales")
    site.known.save()

    assert site.holders() == {"sales": "a.py"}
    assert site.store.execute(c.GetDag("sales")).paused


def test_the_same_files_in_another_directory_are_the_same(site: Site, tmp_path: Path) -> None:
    site.hold("a.py", "sales")
    site.store.execute(c.PauseDag("sales", True))
    site.directory = site.directory.rename(tmp_path / "moved")

    site.known = site.scheduler()
    site.hold("a.py", "sales")

    assert site.holders() == {"sales": "a.py"}
    assert (site.errors(), list(site.known.dags)) == ({}, ["sales"])
    assert site.store.execute(c.GetDag("sales")).paused


def test_a_scheduler_does_not_change_dags_of_another_directory(site: Site, tmp_path: Path) -> None:
    site.hold("a.py", "sales")
    other = tmp_path / "other"
    other.mkdir()

    site.known = site.scheduler(other)
    for _ in range(3):
        site.known.look()

    assert site.holders() == {"sales": "a.py"}


def test_a_dag_that_is_not_in_the_next_release_is_missing_once_no_scheduler_sees_it(
    forward: Callable[[float], None], site: Site, tmp_path: Path
) -> None:
    site.hold("a.py", "sales", "tax")
    site.hold("b.py", "stock")
    site.directory = tmp_path / "next"
    site.directory.mkdir()

    site.known = site.scheduler()
    site.hold("a.py", "sales")
    site.known.look()
    at_once = site.holders()
    unsee(site, "tax", "stock")
    forward(known_dags.SEEN_INTERVAL)
    site.known.look()

    assert at_once == {"sales": "a.py", "stock": "b.py", "tax": "a.py"}
    assert site.holders() == {"sales": "a.py", "stock": "", "tax": ""}


def test_a_dag_whose_file_is_broken_in_the_next_release_stays(
    forward: Callable[[float], None], site: Site, tmp_path: Path
) -> None:
    site.hold("a.py", "sales")
    site.directory = tmp_path / "next"
    site.directory.mkdir()
    site.known = site.scheduler()
    unsee(site, "sales")

    site.hold("a.py", error="SyntaxError")
    site.known.look()
    forward(known_dags.SEEN_INTERVAL)
    site.known.look()

    assert (site.holders(), set(site.errors())) == ({"sales": "a.py"}, {"a.py"})
    assert site.known.broken_file("sales") == str(site.path("a.py"))


def test_a_dag_that_was_run_by_hand_elsewhere_is_not_forgotten(
    forward: Callable[[float], None], site: Site
) -> None:
    by_hand = DagSpec(dag_id="sales", file="/elsewhere/a.py", tasks=())
    site.store.execute(c.SaveFile("a.py", (by_hand,)))

    site.known = site.scheduler()
    for _ in range(3):
        site.known.look()
        forward(known_dags.SEEN_INTERVAL)

    assert site.holders() == {"sales": "a.py"}


def test_the_dags_of_another_directory_stay_while_its_scheduler_is_down(
    forward: Callable[[float], None], site: Site, tmp_path: Path
) -> None:
    site.hold("a.py", "sales")
    site.directory = tmp_path / "other"
    site.directory.mkdir()
    site.known = site.scheduler()
    site.hold("b.py", "stock")
    unsee(site, "sales")

    for _ in range(3):
        site.known.look()
        forward(known_dags.SEEN_INTERVAL)

    assert site.holders() == {"sales": "a.py", "stock": "b.py"}


def test_an_error_is_forgotten_once_no_scheduler_reports_it(
    forward: Callable[[float], None], site: Site, tmp_path: Path
) -> None:
    site.hold("a.py", error="SyntaxError")
    site.hold("b.py", error="SyntaxError")
    site.directory = tmp_path / "other"
    site.directory.mkdir()

    site.known = site.scheduler()
    site.known.look()
    at_once = set(site.errors())
    with closing(sqlite3.connect(site.store_file)) as database, database:
        database.execute("UPDATE hf_dag_file SET saved_at = 0 WHERE file = 'a.py'")
    forward(known_dags.ERROR_INTERVAL.total_seconds())
    site.known.look()

    assert (at_once, set(site.errors())) == ({"a.py", "b.py"}, {"b.py"})


def test_a_file_removed_during_its_import_leaves_no_error(site: Site) -> None:
    site.path("a.py").write_text(TEXT)
    site.known.look()
    site.path("a.py").unlink()

    site.importer.answer(site.path("a.py"), error="FileNotFoundError")
    site.known.save()
    for _ in range(3):
        site.known.look()

    assert site.errors() == {}


def test_files_may_exchange_their_dags(forward: Callable[[float], None], site: Site) -> None:
    site.hold("a.py", "sales", "tax")
    site.hold("b.py", "stock")
    forward(known_dags.REPORT_INTERVAL)
    site.known.look()
    site.store.execute(c.PauseDag("sales", True))

    site.hold("a.py", "stock", "tax")
    between = set(site.errors())
    site.hold("b.py", "sales")

    assert between == {"a.py"}
    assert site.errors() == {}
    assert site.holders() == {"sales": "b.py", "stock": "a.py", "tax": "a.py"}
    assert site.known.dags.keys() == {"sales", "stock", "tax"}
    assert site.store.execute(c.GetDag("sales")).paused


def test_a_change_during_an_import_is_read(site: Site) -> None:
    site.path("a.py").write_text(TEXT)
    site.known.look()
    site.path("a.py").write_text(TEXT + "# changed\n")
    site.known.look()
    site.importer.answer(site.path("a.py"), "old")
    site.known.save()
    before = site.holders()

    site.importer.answer(site.path("a.py"), "new")
    site.known.save()

    assert before == {}
    assert site.holders() == {"new": "a.py"}


def test_a_file_removed_while_the_store_is_unavailable_is_removed(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    site.hold("a.py", "sales")
    site.hold("b.py", "stock")
    site.path("a.py").unlink()
    site.known.look()

    def fail(command: Any) -> Any:
        raise StoreUnavailable("the database is away")

    with monkeypatch.context() as away:
        away.setattr(site.store, "execute", fail)
        site.path("b.py").unlink()
        with pytest.raises(StoreUnavailable):
            site.known.look()
        known = dict(site.known.dags)
    for _ in range(2):
        site.known.look()

    assert known == {}
    assert site.holders() == {"sales": "", "stock": ""}


def test_a_slow_import_does_not_delay_other_files(
    forward: Callable[[float], None], tmp_path: Path, site: Site
) -> None:
    site.path("slow.py").write_text(TEXT)
    site.hold("a.py", "sales")
    site.known.look()
    early = site.known.complete

    forward(known_dags.START_TIMEOUT)
    site.known.look()

    assert not early
    assert site.known.complete


def test_a_file_that_was_missing_at_the_end_of_its_import_is_imported_again(site: Site) -> None:
    site.path("a.py").write_text(TEXT)
    site.known.look()
    site.importer.answer(site.path("a.py"), "sales")
    away = site.directory.rename(site.directory.parent / "away")
    site.known.save()
    away.rename(site.directory)

    site.known.look()
    site.importer.answer(site.path("a.py"), "sales")
    site.known.save()

    assert site.holders() == {"sales": "a.py"}


def test_a_replaced_file_with_the_same_size_and_time_is_imported(site: Site) -> None:
    site.path("a.py").write_text(TEXT.replace("DAG", "dag"))
    before = site.path("a.py").stat()
    site.known.look()
    site.path("a.py").write_text(TEXT)
    os.utime(site.path("a.py"), ns=(before.st_atime_ns, before.st_mtime_ns))

    site.known.look()

    assert site.importer.asked == ["a.py"]


def test_a_refused_file_that_has_changed_is_used_as_it_is_now(site: Site) -> None:
    site.hold("a.py", "sales")
    site.hold("b.py", "sales", "first")
    site.hold("b.py", "sales", "second")
    site.path("a.py").unlink()
    for _ in range(2):
        site.known.look()

    assert site.holders() == {"sales": "b.py", "second": "b.py"}


def test_files_of_the_same_name_in_two_directories_are_independent(
    forward: Callable[[float], None], site: Site, tmp_path: Path
) -> None:
    site.hold("etl.py", "sales")
    here, directory = site.known, site.directory
    site.directory = tmp_path / "other"
    site.directory.mkdir()
    site.known = site.scheduler()
    site.hold("etl.py", "stock")
    site.hold("etl.py", "stock", "tax")
    both = site.holders()
    site.path("etl.py").unlink()
    for _ in range(2):
        site.known.look()

    forward(known_dags.REPORT_INTERVAL)
    here.look()

    assert directory != site.directory
    assert both == {"sales": "etl.py", "stock": "etl.py", "tax": "etl.py"}
    assert site.holders() == {"sales": "etl.py", "stock": "", "tax": ""}
    assert site.importer.asked == []


def test_the_error_of_a_dag_is_reported(site: Site) -> None:
    site.hold("a.py", "sales")
    site.hold("b.py", "stock")
    site.hold("b.py", error="SyntaxError")

    site.known = site.scheduler()
    site.known.look()
    at_first = site.known.why_without("sales")
    for name, error in (("a.py", ""), ("b.py", "SyntaxError")):
        site.importer.answer(site.path(name), "sales", error=error)
    site.known.save()

    assert at_first == f"its file {site.path('a.py')} is still being imported"
    told = site.known.why_without("stock")
    assert told == f"its file {site.path('b.py')} is broken; `holdfast dags errors` shows why"
    assert site.known.why_without("other") == "no DAG file defines it"


def test_a_dag_function_that_is_never_called_is_a_warning(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    path = site.path("forgotten.py")
    path.write_text(TEXT)
    site.known.look()
    site.importer.give(FileParsed(str(path), Parsed(uncalled=("noop",))))
    site.known.save()

    [told] = [one for one in caplog.records if one.levelname == "WARNING"]
    assert told.getMessage().endswith("no DAG: the @dag function noop is never called")
    assert site.errors() == {}
