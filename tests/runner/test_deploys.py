"""Deploys: DAG files that are moved, replaced, broken or missing for a while, under a running
scheduler and a restarted one. No pause, event or date is lost, and nothing starts from a broken
file."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest
from project import Project, new_project, wait_until
from servers import Server, postgres_server

from holdfast import commands as c
from holdfast.model.run import DagInfo, RunState

HEAD = """\
import os, time
from datetime import datetime, timedelta, timezone
from holdfast.sdk import DAG, Asset, task

first = Asset("first", uri="file:///first")
second = Asset("second", uri="file:///second")

def note(text):
    with open("{notes}", "a") as notes:
        notes.write(text + "\\n")

"""
CONSUMER = """
with DAG("consumer", schedule=[first, second]):

    @task
    def read(triggering_asset_events=None):
        return sum(len(events) for events in triggering_asset_events.values())

    read()
"""
PRODUCERS = """
for asset in (first, second):
    with DAG(f"make_{asset.name}"):

        @task(outlets=[asset])
        def make():
            pass

        make()
"""

BREAKS_ITSELF = """
with DAG("steps"):

    @task
    def one():
        with open(FILE, "w") as file:
            file.write(BROKEN)

    @task
    def two():
        pass

    one() >> two()
"""


class Site:
    """Project with its DAG directory, and the number of its schedulers."""

    def __init__(self, project: Project, schedulers: int = 1) -> None:
        self.project = project
        self.directory = "dags"
        self.number = schedulers

    @contextmanager
    def schedulers(self) -> Iterator[None]:
        """Run the schedulers of the directory."""
        with ExitStack() as services:
            for _ in range(self.number):
                services.enter_context(self.project.service("scheduler", self.directory))
            yield

    def write(self, name: str, text: str, directory: str | None = None) -> None:
        """Put a file there, at once."""
        head = HEAD.replace("{notes}", str(self.project.path("notes")))
        self.project.write("written", head + text)
        place = self.project.path(directory or self.directory) / name
        place.parent.mkdir(parents=True, exist_ok=True)
        os.rename(self.project.path("written"), place)

    def dag(self, dag_id: str) -> DagInfo:
        return self.project.store.execute(c.GetDag(dag_id))

    def wait_for(self, *dag_ids: str) -> None:
        """Wait until the DAGs are in files."""
        if self.project.url.startswith("sqlite"):
            wait_until((self.project.home / "holdfast.db").exists)

        def held() -> bool:
            infos = self.project.store.execute(c.ListDags())
            return set(dag_ids) <= {info.dag_id for info in infos if info.file}

        wait_until(held)

    def trigger(self, dag_id: str, run_id: str) -> None:
        asked = self.project.holdfast("runs", "trigger", dag_id, "--run-id", run_id)
        assert asked.status == 0, asked.err

    def ended(self, dag_id: str, run_id: str) -> RunState:
        wait_until(lambda: self.project.run_of(dag_id, run_id).state.ended)
        return self.project.run_of(dag_id, run_id).state

    def witness(self, name: str) -> None:
        """Wait until the scheduler has read all files, and started the runs that are due."""
        self.write(f"{name}.py", returning(name, "seen", '"@once"'))
        self.wait_for(name)
        wait_until(lambda: [run.state.ended for run in self.project.runs(name)] == [True])


@pytest.fixture
def site(project: Project) -> Site:
    return Site(project)


@pytest.fixture(scope="module")
def postgres() -> Iterator[Server]:
    with postgres_server() as server:
        yield server


@pytest.fixture(params=["sqlite 1", "sqlite 2", "postgres 1", "postgres 2"])
def deployed(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Site]:
    """Yield a site on each kind of database, with one scheduler and with two."""
    database, number = request.param.split()
    environ = {}
    if database == "postgres":
        environ["HOLDFAST__DATABASE__URL"] = request.getfixturevalue("postgres").new_database()
    with new_project(tmp_path, **environ) as project:
        assert project.holdfast("db", "migrate").status == 0
        yield Site(project, int(number))


def returning(dag_id: str, value: str, schedule: str = "None") -> str:
    return f"""
with DAG("{dag_id}", schedule={schedule}):

    @task
    def work():
        return "{value}"

    work()
"""


def test_a_file_that_was_removed_for_a_while_keeps_its_pause_and_its_events(
    deployed: Site,
) -> None:
    site, project = deployed, deployed.project
    site.write("consumer.py", CONSUMER)
    site.write("paused.py", returning("paused", "x", '"@once"'))
    site.write("producers.py", PRODUCERS)
    with site.schedulers():
        site.wait_for("consumer", "paused", "make_first", "make_second")
        wait_until(lambda: [run.state.ended for run in project.runs("paused")] == [True])
        assert project.holdfast("dags", "pause", "paused").status == 0
        site.trigger("make_first", "before")
        assert site.ended("make_first", "before") is RunState.SUCCESS
        for name in ("consumer.py", "paused.py"):
            os.rename(project.path("dags") / name, project.path(name))
        wait_until(lambda: not site.dag("consumer").file and not site.dag("paused").file)
        site.trigger("make_second", "meanwhile")
        assert site.ended("make_second", "meanwhile") is RunState.SUCCESS
        none = project.runs("consumer")
        for name in ("consumer.py", "paused.py"):
            os.rename(project.path(name), project.path("dags") / name)
        wait_until(lambda: [run.state.ended for run in project.runs("consumer")] == [True])

    [run] = project.runs("consumer")
    assert none == []
    assert project.result("read", "consumer", run.run_id) == [2]
    assert site.dag("paused").paused


def test_a_link_to_the_directory_may_be_replaced(deployed: Site) -> None:
    site, project = deployed, deployed.project
    site.directory = "current"
    for release, value in (("r1", "old"), ("r2", "new")):
        site.write("team/h.py", returning("h", value), release)
        os.utime(project.path(release) / "team/h.py", (1, 1))
    link(project, "r1")
    with site.schedulers():
        site.wait_for("h")
        assert project.holdfast("dags", "pause", "h").status == 0
        site.trigger("h", "first")
        site.ended("h", "first")
        saved = site.dag("h").saved_at
        link(project, "r2")
        wait_until(lambda: site.dag("h").saved_at > saved)
        site.trigger("h", "second")
        site.ended("h", "second")
    shutil.rmtree(project.path("r1"))
    site.directory = "r2"
    with site.schedulers():
        wait_until(lambda: "team/h.py: h" in project.read("scheduler.err").rpartition("r2/")[2])
        site.trigger("h", "third")
        site.ended("h", "third")

    assert [project.result("work", "h", run) for run in ("first", "second", "third")] == [
        ["old"],
        ["new"],
        ["new"],
    ]
    assert (site.dag("h").file, site.dag("h").paused) == ("team/h.py", True)
    assert "already in" not in project.read("scheduler.err")
    assert project.holdfast("dags", "errors").err == "No file is broken.\n"


def link(project: Project, release: str) -> None:
    """Replace the link in one step, as deploys do."""
    os.symlink(project.path(release), project.path("next"))
    os.rename(project.path("next"), project.path("current"))


@pytest.mark.full
def test_a_file_that_is_run_manually_is_the_one_that_the_scheduler_has(
    site: Site, project: Project
) -> None:
    site.write("team/h.py", returning("h", "x"))
    with project.service("scheduler", "dags"):
        site.wait_for("h")
        ran = project.holdfast("run", "dags/team/h.py", "--run-id", "by hand")
        site.write("h.py", returning("h", "y"), "copies")
        copied = project.holdfast("run", "copies/h.py", "--run-id", "of a copy")

    assert ran.status == 0, ran.err
    assert copied.status == 1
    assert "DAG `h` of h.py is already in team/h.py" in copied.err
    assert site.dag("h").file == "team/h.py"


@pytest.mark.full
def test_unreadable_files_and_unusable_names_are_reported_and_the_other_files_are_used(
    site: Site, project: Project
) -> None:
    site.write("latin\udcff.py", returning("latin", "x"))
    site.write("two\nlines.py", returning("lines", "x"))
    site.write("linked.py", returning("linked", "x"), "elsewhere\udcff")
    os.symlink(project.path("elsewhere\udcff"), project.path("dags") / "team")
    os.symlink("/proc/self/mem", project.path("dags") / "unreadable.py")
    with project.service("scheduler", "dags"):
        site.wait_for("linked")
        wait_until(lambda: len(errors_of(project)) == 3)
        site.witness("good")
        site.trigger("linked", "r")
        ran = site.ended("linked", "r")
        told = project.holdfast("dags", "errors").out
        os.remove(project.path("dags") / "latin\udcff.py")
        wait_until(lambda: len(errors_of(project)) == 2)
    log = project.read("scheduler.err")

    assert ran is RunState.SUCCESS
    assert "latin\\xff.py has control characters, or bytes that are not UTF-8\nhint: rename" in told
    assert "two\\nlines.py has control characters" in told
    assert "unreadable.py:\n" in told and "Error: [Errno " in told
    assert "latin\\xff.py cannot be used" in log and "latin\\xff.py was deleted" in log
    assert site.dag("linked").file == "team/linked.py"


def errors_of(project: Project) -> dict[str, str]:
    return {one.file: one.error for one in project.store.execute(c.ListFiles()) if one.error}


@pytest.mark.parametrize("restart", [False, True])
def test_a_broken_file_starts_nothing_until_it_is_fixed(deployed: Site, restart: bool) -> None:
    site, project = deployed, deployed.project
    site.write("consumer.py", CONSUMER)
    site.write("producers.py", PRODUCERS)
    with site.schedulers():
        site.wait_for("consumer", "make_first", "make_second")
        if not restart:
            site.write("consumer.py", CONSUMER.replace("DAG(", "NO_DAG("))
            nothing_starts_until_mended(site, project)
    if restart:
        site.write("consumer.py", CONSUMER.replace("DAG(", "NO_DAG("))
        with site.schedulers():
            nothing_starts_until_mended(site, project)


def nothing_starts_until_mended(site: Site, project: Project) -> None:
    unusable = "consumer.py cannot be used"
    wait_until(lambda: project.read("scheduler.err").count(unusable) >= site.number)
    site.trigger("consumer", "asked")
    for name in ("make_first", "make_second"):
        site.trigger(name, "r")
        site.ended(name, "r")
    site.witness("witness")
    before = [(run.run_id, run.state) for run in project.runs("consumer")]
    told = project.read("scheduler.err")
    site.write("consumer.py", CONSUMER)
    wait_until(lambda: [one.state.ended for one in project.runs("consumer")] == [True, True])

    asked, by_events = project.runs("consumer")
    assert before == [("asked", RunState.QUEUED)]
    assert "1 run of DAG consumer waits: its file" in told and "is broken" in told
    assert asked.run_id == "asked"
    assert project.result("read", "consumer", by_events.run_id) == [2]


TWO_STEPS = """
with DAG("steps"):

    @task
    def one():
        note("one")
        while not os.path.exists(WORK / "go"):
            time.sleep(0.05)

    @task
    def two():
        return "two"

    one() >> two()
"""


@pytest.mark.full
@pytest.mark.parametrize("how", ["away", "broken"])
def test_a_running_run_waits_for_its_file(site: Site, project: Project, how: str) -> None:
    steps = TWO_STEPS.replace("WORK /", f"'{project.directory}' + '/' +")
    site.write("steps.py", steps)
    with project.service("scheduler", "dags"):
        site.wait_for("steps")
        site.trigger("steps", "r")
        wait_until(lambda: project.read("notes") == "one\n")
        if how == "away":
            project.path("dags/steps.py").unlink()
        else:
            site.write("steps.py", "DAG(1 / 0)\n")
        wait_until(lambda: "1 run of DAG steps waits" in project.read("scheduler.err"))
        project.path("go").touch()
        wait_until(lambda: project.states("steps")["one"] == "success")
        site.witness("witness")
        between = project.attempts("two", "steps")
        site.write("steps.py", steps)
        state = site.ended("steps", "r")

    assert between == []
    assert state is RunState.SUCCESS
    assert [one.outcome for one in project.attempts("two", "steps")] == ["success"]


@pytest.mark.full
@pytest.mark.parametrize("broken", ["with DAG('steps') as:\n", "import no_such_module\n"])
def test_a_file_that_breaks_just_before_a_task_starts_fails_no_task(
    site: Site, project: Project, broken: str
) -> None:
    file = project.path("dags/steps.py")
    breaking = BREAKS_ITSELF.replace("FILE", repr(str(file))).replace("BROKEN", repr(broken))
    site.write("steps.py", breaking)
    with project.service("scheduler", "dags"):
        site.wait_for("steps")
        site.trigger("steps", "r")
        wait_until(lambda: "1 run of DAG steps waits" in project.read("scheduler.err"))
        site.write("steps.py", breaking)
        state = site.ended("steps", "r")

    assert state is RunState.SUCCESS
    *before, last = [one.outcome for one in project.attempts("two", "steps")]
    assert (set(before) <= {"interrupted"}, last) == (True, "success")


@pytest.mark.full
def test_an_emptied_file_is_reported_for_the_runs_that_wait_for_it(
    site: Site, project: Project
) -> None:
    site.write("h.py", returning("h", "x"))
    with project.service("scheduler", "dags"):
        site.wait_for("h")
        project.path("dags/h.py").write_text("")
        wait_until(lambda: not site.dag("h").file)
        site.trigger("h", "r")
        told = "1 run of DAG h waits: no DAG file defines it"
        wait_until(lambda: told in project.read("scheduler.err"))
        site.write("h.py", returning("h", "y"))
        assert site.ended("h", "r") is RunState.SUCCESS

    assert project.result("work", "h") == ["y"]


@pytest.mark.full
def test_a_stale_dag_is_reported_and_starts_no_run(site: Site, project: Project) -> None:
    site.write("h.py", returning("h", "x"))
    with project.service("scheduler", "dags", HOLDFAST__DAGS__STALE_AFTER="1s"):
        site.wait_for("h")
        project.path("dags/h.py").unlink()
        wait_until(lambda: site.dag("h").stale_at is not None)
        listed = project.holdfast("dags", "list").out
        asked = project.holdfast("runs", "trigger", "h")
        site.write("h.py", returning("h", "y"))
        wait_until(lambda: site.dag("h").stale_at is None)
        site.trigger("h", "r")
        assert site.ended("h", "r") is RunState.SUCCESS

    assert "stale since" in listed
    assert asked.status == 1
    assert "error: DAG `h` is stale since" in asked.err and "no DAG file defines it" in asked.err


@pytest.mark.full
def test_any_number_of_runs_may_wait_and_the_oldest_go_first(site: Site, project: Project) -> None:
    busy = returning("busy", "x").replace("schedule=None", "max_active_runs=2")
    site.write("busy.py", busy + returning("other", "y"))
    with project.service("scheduler", "dags"):
        site.wait_for("busy", "other")
    project.store.execute(c.CreateRun(dag_id="other", run_id="r"))
    queue_runs(project.home / "holdfast.db", "busy", 10_500)

    with project.service("scheduler", "dags"):
        other = site.ended("other", "r")
        wait_until(lambda: len(ended(project, "busy")) >= 4)
        running = c.Count(c.ListRuns(dag_id="busy", states=(RunState.RUNNING,)))
        most = max(project.store.execute(running) for _ in range(20))

    assert other is RunState.SUCCESS
    assert ended(project, "busy")[:4] == ["r00001", "r00002", "r00003", "r00004"]
    assert most <= 2


def ended(project: Project, dag_id: str) -> list[str]:
    done = c.ListRuns(dag_id=dag_id, states=(RunState.SUCCESS,), oldest_first=True)
    return [run.run_id for run in project.store.execute(done)]


def queue_runs(database: Path, dag_id: str, count: int) -> None:
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(
            "INSERT INTO hf_run (dag_id, run_id, kind, state, conf, created_at)"
            f" {numbers} SELECT ?, printf('r%05d', i), 'manual', 'queued', '{{}}', 1 FROM n",
            (dag_id,),
        )
