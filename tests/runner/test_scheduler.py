"""`holdfast scheduler` on a directory of DAG files."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta

import pytest
from project import Project, wait_until

from holdfast import commands as c
from holdfast.model.entry import ApiWriter
from holdfast.model.run import Run, RunKind, RunState
from holdfast.model.scope import TaskScope

HEAD = """\
import os, time
from datetime import datetime, timedelta, timezone
from holdfast.sdk import DAG, Asset, task

first = Asset("first", uri="file:///first")
second = Asset("second", uri="file:///second")

def note(text):
    with open("notes", "a") as notes:
        notes.write(text + "\\n")

"""

ONE_TASK = """

    @task
    def work(**context):
        return "worked"

    work()
"""


def start_of_today() -> datetime:
    return datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


class Scheduled:
    """Project with a running scheduler."""

    def __init__(self, project: Project) -> None:
        self.project = project

    def add(self, name: str, text: str) -> None:
        """Put a file there, at once."""
        self.project.write(f"{name}.new", HEAD + text)
        os.rename(self.project.path(f"{name}.new"), self.project.path(f"dags/{name}.py"))

    def ended(self, dag_id: str, count: int = 1) -> list[Run]:
        """Return its runs, oldest first, once there are that many and all have ended."""

        def done() -> bool:
            runs = self.project.runs(dag_id)
            return len(runs) >= count and all(run.state.ended for run in runs)

        wait_until(done)
        return self.project.runs(dag_id)

    def trigger(self, dag_id: str, *args: str) -> str:
        """Trigger a run, once the DAG is known, and return its id."""
        wait_until(lambda: dag_id in self.known())
        return self.project.holdfast("runs", "trigger", dag_id, *args).out.strip()

    def known(self) -> set[str]:
        return {info.dag_id for info in self.project.store.execute(c.ListDags())}

    def files(self) -> set[str]:
        return {info.file for info in self.project.store.execute(c.ListFiles())}

    def broken(self) -> set[str]:
        files = self.project.store.execute(c.ListFiles())
        return {os.path.basename(info.file) for info in files if info.error}


@pytest.fixture(scope="module")
def scheduled(shared_project: Callable[..., Project]) -> Iterator[Scheduled]:
    project = shared_project(HOLDFAST__STATE_STORE__CLEANUP_INTERVAL="1s")
    project.path("dags").mkdir()
    with project.service("scheduler", "dags") as process:
        wait_until((project.home / "holdfast.db").exists)
        wait_until(lambda: project.processes("holdfast.runner.launcher"))
        yield Scheduled(project)
        assert process.poll() is None, project.read("scheduler.err")


@pytest.mark.full
def test_a_dag_runs_once(scheduled: Scheduled) -> None:
    scheduled.add("once", 'with DAG("once", schedule="@once"):' + ONE_TASK)

    [run] = scheduled.ended("once")

    assert (run.state, run.kind) == (RunState.SUCCESS, RunKind.SCHEDULED)
    assert scheduled.project.result("work", "once", run.run_id) == ["worked"]


def test_an_event_from_outside_starts_a_run_once_for_each_key(scheduled: Scheduled) -> None:
    scheduled.add("outside", 'with DAG("outside", schedule=[Asset("landing")]):' + ONE_TASK)
    wait_until(lambda: "outside" in scheduled.known())
    report = ("assets", "event", "landing", "--key", "monday")

    reported = [scheduled.project.holdfast(*report).status for _ in range(2)]
    [run] = scheduled.ended("outside")

    assert (reported, run.state, run.kind) == ([0, 0], RunState.SUCCESS, RunKind.ASSET)
    assert scheduled.project.holdfast(*report).status == 0
    assert len(scheduled.project.events("landing")) == 1


@pytest.mark.full
def test_missed_dates_are_caught_up_in_order(scheduled: Scheduled) -> None:
    start = start_of_today() - timedelta(days=3)
    scheduled.add(
        "daily",
        f"""
with DAG("daily", schedule="0 0 * * *", start_date=datetime.fromisoformat("{start.isoformat()}"),
         catchup=True, max_active_runs=1):

    @task
    def work(logical_date=None, dag_run=None):
        note(f"daily {{logical_date.date()}}")
        return logical_date.isoformat()

    work()
""",
    )

    runs = scheduled.ended("daily", count=4)

    dates = [start + timedelta(days=n) for n in range(4)]
    assert [run.logical_date for run in runs] == dates
    assert [run.run_id for run in runs] == [f"scheduled__{date.isoformat()}" for date in dates]
    daily = [line for line in scheduled.project.read("notes").splitlines() if "daily" in line]
    assert daily == [f"daily {date.date()}" for date in dates]
    ends = [run.ended_at for run in runs]
    starts = [run.started_at for run in runs]
    assert all(end <= start for end, start in zip(ends, starts[1:], strict=False))


def test_without_catchup_only_the_newest_date_runs(scheduled: Scheduled) -> None:
    start = datetime.now(UTC) - timedelta(hours=3.5)
    scheduled.add(
        "hourly",
        'with DAG("hourly", schedule=timedelta(hours=1), catchup=False,\n'
        f'         start_date=datetime.fromisoformat("{start.isoformat()}")):' + ONE_TASK,
    )

    [run] = scheduled.ended("hourly")

    assert run.logical_date == start + timedelta(hours=3)


@pytest.mark.full
def test_events_start_no_run_before_the_start_date_or_after_the_end_date(
    scheduled: Scheduled,
) -> None:
    dags = """
for name, dates in (("early", EARLY), ("late", LATE), ("open", {})):
    with DAG(name, schedule=[first], **dates):

        @task
        def read(triggering_asset_events=None):
            return len(triggering_asset_events[first])

        read()

with DAG("producer"):

    @task(outlets=[first])
    def produce():
        pass

    produce()
"""
    early, late = "{'start_date': datetime(2100, 1, 1)}", "{'end_date': datetime(2001, 1, 1)}"
    scheduled.add("assets", f"EARLY, LATE = {early}, {late}" + dags)

    scheduled.trigger("producer")
    scheduled.ended("open")
    shut = scheduled.project.runs("early") + scheduled.project.runs("late")
    scheduled.add("assets", "EARLY = LATE = {}" + dags)
    [opened] = scheduled.ended("early")
    [reopened] = scheduled.ended("late")

    assert shut == []
    assert scheduled.project.result("read", "early", opened.run_id) == [1]
    assert scheduled.project.result("read", "late", reopened.run_id) == [1]


@pytest.mark.full
def test_an_event_of_an_asset_starts_the_dags_scheduled_on_it(scheduled: Scheduled) -> None:
    scheduled.add(
        "assets",
        """
with DAG("consumer", schedule=[first]):

    @task(inlets=[first])
    def read(asset_store=None, triggering_asset_events=None):
        extras = [event.extra for event in triggering_asset_events[first]]
        return [asset_store.get("watermark"), extras]

    read()

with DAG("both", schedule=[first, second]):

    @task
    def read_both(triggering_asset_events=None):
        return sorted(asset.name for asset in triggering_asset_events)

    read_both()

with DAG("first_producer"):

    @task(outlets=[first])
    def produce(asset_store=None, outlet_events=None, params=None, dag_run=None):
        asset_store.set("watermark", dag_run.conf["day"], on_success=True)
        outlet_events[first].extra = {"day": dag_run.conf["day"]}

    produce()

with DAG("second_producer"):

    @task(outlets=[second])
    def produce_second():
        pass

    produce_second()
""",
    )

    scheduled.trigger("first_producer", "--conf", '{"day": 1}')
    [consumed] = scheduled.ended("consumer")
    before = scheduled.project.runs("both")
    scheduled.trigger("second_producer")
    [both] = scheduled.ended("both")

    assert consumed.kind is RunKind.ASSET
    assert scheduled.project.result("read", "consumer", consumed.run_id) == [[1, [{"day": 1}]]]
    assert before == []
    assert scheduled.project.result("read_both", "both", both.run_id) == [["first", "second"]]
    assert len(scheduled.project.runs("consumer")) == 1


@pytest.mark.full
def test_a_run_is_triggered_with_its_conf(scheduled: Scheduled) -> None:
    scheduled.add(
        "manual",
        """
with DAG("manual", params={"who": "nobody"}):

    @task
    def greet(params=None):
        return params["who"]

    greet()
""",
    )

    run_id = scheduled.trigger("manual", "--run-id", "mine", "--conf", '{"who": "Ada"}')
    [run] = scheduled.ended("manual")

    assert run_id == run.run_id == "mine"
    assert (run.state, run.kind) == (RunState.SUCCESS, RunKind.MANUAL)
    assert scheduled.project.result("greet", "manual", "mine") == ["Ada"]


@pytest.mark.full
def test_a_backfill_runs_its_dates_within_the_limit_of_active_runs(scheduled: Scheduled) -> None:
    scheduled.add(
        "filled",
        """
with DAG("filled", schedule="@daily", start_date=datetime(2020, 1, 1), max_active_runs=2,
         is_paused_upon_creation=True):

    @task
    def work(run_id=None):
        marker = f"active {run_id.replace('/', ' ')}"
        os.close(os.open(marker, os.O_CREAT))
        time.sleep(0.2)
        active = len([name for name in os.listdir() if name.startswith("active ")])
        os.remove(marker)
        return active

    work()
""",
    )
    wait_until(lambda: "filled" in scheduled.known())

    asked = scheduled.project.holdfast(
        "runs", "backfill", "filled", "--from", "2020-02-01", "--to", "2020-02-05"
    )
    runs = scheduled.ended("filled", count=5)

    assert asked.status == 0, asked.err
    assert {run.kind for run in runs} == {RunKind.BACKFILL}
    assert {run.state for run in runs} == {RunState.SUCCESS}
    assert [f"{run.logical_date:%m-%d}" for run in runs] == [f"02-0{n}" for n in range(1, 6)]
    active = [scheduled.project.result("work", "filled", run.run_id)[0] for run in runs]
    assert max(active) <= 2


@pytest.mark.full
def test_a_paused_dag_waits(scheduled: Scheduled) -> None:
    scheduled.add(
        "paused",
        'with DAG("paused", schedule="@once", is_paused_upon_creation=True):' + ONE_TASK,
    )
    scheduled.add("witness", 'with DAG("witness", schedule="@once"):' + ONE_TASK)
    wait_until(lambda: {"paused", "witness"} <= scheduled.known())
    scheduled.ended("witness")
    before = scheduled.project.runs("paused")

    assert scheduled.project.holdfast("dags", "unpause", "paused").status == 0

    assert before == []
    assert scheduled.ended("paused")[0].state is RunState.SUCCESS


@pytest.mark.full
def test_files_are_read_again_when_they_change(scheduled: Scheduled) -> None:
    text = (
        'with DAG("changing"):\n\n    @task\n    def work():\n        return "old"\n\n    work()\n'
    )
    scheduled.add("changing", text)
    scheduled.trigger("changing", "--run-id", "before")
    scheduled.ended("changing")
    more = '    work.override(task_id="more")()\n'

    scheduled.add("changing", text.replace("old", "new") + more)
    dag = c.GetDag("changing")
    wait_until(lambda: "more" in scheduled.project.store.execute(dag).spec)
    scheduled.trigger("changing", "--run-id", "after")
    scheduled.ended("changing", count=2)

    assert scheduled.project.result("work", "changing", "before") == ["old"]
    assert scheduled.project.result("work", "changing", "after") == ["new"]
    assert scheduled.project.result("more", "changing", "after") == ["new"]


def test_a_broken_file_is_reported_with_its_traceback_and_stops_no_other(
    scheduled: Scheduled,
) -> None:
    scheduled.add("fragile", 'with DAG("fragile"):' + ONE_TASK)
    wait_until(lambda: "fragile" in scheduled.known())
    scheduled.add("fragile", 'with DAG("fragile"):\n    raise RuntimeError("on purpose")\n')
    wait_until(lambda: "fragile.py" in scheduled.broken())
    scheduled.add("sound", 'with DAG("sound", schedule="@once"):' + ONE_TASK)

    [run] = scheduled.ended("sound")
    told = scheduled.project.holdfast("dags", "errors")
    kept = "fragile" in scheduled.known()
    scheduled.add("fragile", 'with DAG("fragile"):' + ONE_TASK)
    wait_until(lambda: "fragile.py" not in scheduled.broken())

    assert run.state is RunState.SUCCESS
    assert "fragile.py" in told.out and "RuntimeError: on purpose" in told.out
    assert "Traceback" in told.out and "holdfast/runner" not in told.out
    assert kept


DIES_ONCE = """
import os, signal

if not os.path.exists("killed"):
    open("killed", "w").close()
    os.kill(os.getpid(), signal.SIGKILL)

with DAG("heavy", schedule="@once"):"""


@pytest.mark.full
def test_a_file_whose_import_was_killed_is_imported_again(scheduled: Scheduled) -> None:
    scheduled.add("heavy", DIES_ONCE + ONE_TASK)

    [run] = scheduled.ended("heavy")

    assert scheduled.project.path("killed").exists()
    assert run.state is RunState.SUCCESS


@pytest.mark.full
def test_a_file_whose_assets_conflict_with_another_is_reported_and_the_other_continues(
    scheduled: Scheduled,
) -> None:
    stock = 'stock = Asset("stock", uri="file:///{}")\n'
    dag = 'with DAG("{}", schedule="@once"):\n\n    @task(outlets=[stock])\n    def work():\n'
    dag += '        return "worked"\n\n    work()\n'
    scheduled.add("holder", stock.format("here") + dag.format("holder"))
    [before] = scheduled.ended("holder")

    scheduled.add("clashing", stock.format("there") + dag.format("clashing"))
    wait_until(lambda: "clashing.py" in scheduled.broken())
    told = scheduled.project.holdfast("dags", "errors").out
    scheduled.trigger("holder", "--run-id", "again")
    runs = scheduled.ended("holder", count=2)

    assert before.state is RunState.SUCCESS
    assert "clashing.py" in told
    assert (
        "asset `stock` with URI `file:///there` conflicts with asset `stock` with URI `file:///here`"
        in told
    )
    assert "Traceback" not in told
    assert "clashing" not in scheduled.known() and "holder.py" not in scheduled.broken()
    assert {run.state for run in runs} == {RunState.SUCCESS}
    assert len(scheduled.project.events("stock")) == 2


@pytest.mark.full
def test_a_dag_whose_file_is_renamed_keeps_its_state(scheduled: Scheduled) -> None:
    scheduled.add("renamed", 'with DAG("renamed", schedule="@once"):' + ONE_TASK)
    scheduled.ended("renamed")
    assert scheduled.project.holdfast("dags", "pause", "renamed").status == 0
    renamed = c.GetDag("renamed")
    before = scheduled.project.store.execute(renamed)

    directory = scheduled.project.path("dags")
    os.rename(directory / "renamed.py", directory / "another_name.py")
    wait_until(lambda: scheduled.project.store.execute(renamed).file != before.file)
    wait_until(lambda: before.file not in scheduled.files())
    after = scheduled.project.store.execute(renamed)

    assert after.file == "another_name.py"
    assert (after.paused, after.scheduled_until) == (True, before.scheduled_until)


@pytest.mark.full
def test_a_dag_in_two_files_is_reported_until_it_is_removed_from_one(scheduled: Scheduled) -> None:
    text = 'with DAG("twice", is_paused_upon_creation=True):' + ONE_TASK
    scheduled.add("one", text)
    wait_until(lambda: "twice" in scheduled.known())
    assert scheduled.project.holdfast("dags", "unpause", "twice").status == 0

    scheduled.add("two", text)
    wait_until(lambda: "two.py" in scheduled.broken())
    told = scheduled.project.holdfast("dags", "errors").out
    scheduled.project.path("dags/one.py").unlink()
    wait_until(lambda: "two.py" not in scheduled.broken())
    twice = scheduled.project.store.execute(c.GetDag("twice"))

    assert "DAG `twice` of" in told and "is already in" in told
    assert os.path.basename(twice.file) == "two.py"
    assert not twice.paused


@pytest.mark.full
def test_a_run_whose_dag_is_in_no_file_is_reported_once(scheduled: Scheduled) -> None:
    told = "1 run of DAG nowhere waits: no DAG file defines it"
    scheduled.project.store.execute(c.CreateRun(dag_id="nowhere", run_id="r"))
    wait_until(lambda: told in scheduled.project.read("scheduler.err"))
    scheduled.add("meanwhile", 'with DAG("meanwhile", schedule="@once"):' + ONE_TASK)
    scheduled.ended("meanwhile")

    assert scheduled.project.read("scheduler.err").count(told) == 1
    assert scheduled.project.run_of("nowhere", "r").state is RunState.QUEUED


@pytest.mark.full
def test_a_dag_whose_file_was_removed_for_a_while_keeps_its_state(scheduled: Scheduled) -> None:
    text = (
        'with DAG("returning", schedule=timedelta(days=1), catchup=True,\n'
        f'         start_date=datetime.fromisoformat("{start_of_today().isoformat()}")):'
    )
    scheduled.add("returning", text + ONE_TASK)
    [run] = scheduled.ended("returning")

    assert scheduled.project.holdfast("dags", "pause", "returning").status == 0
    dag = c.GetDag("returning")
    scheduled.project.path("dags/returning.py").unlink()
    wait_until(lambda: not scheduled.project.store.execute(dag).file)
    kept = scheduled.project.runs("returning")
    listed = scheduled.project.holdfast("dags", "list").out
    scheduled.add("returning", text + ONE_TASK)
    wait_until(lambda: scheduled.project.store.execute(dag).file == "returning.py")
    paused = scheduled.project.store.execute(dag).paused
    assert scheduled.project.holdfast("dags", "unpause", "returning").status == 0
    scheduled.add("after_it", 'with DAG("after_it", schedule="@once"):' + ONE_TASK)
    scheduled.ended("after_it")

    assert kept == [run]
    assert "missing since" in listed
    assert paused
    assert scheduled.project.runs("returning") == [run]


class TestClearing:
    """Clearing of a task that counts its runs in its task store, and fails the first time."""

    @pytest.fixture(scope="class", autouse=True)
    @classmethod
    def _ran(cls, scheduled: Scheduled) -> None:
        scheduled.add(
            "cleared",
            """
with DAG("cleared"):

    @task
    def work(task_store=None, run_id=None):
        found = task_store.get("runs", 0)
        task_store.set("runs", found + 1)
        if not os.path.exists("healed"):
            raise ValueError("not yet")
        return found

    work()
""",
        )
        scheduled.trigger("cleared", "--run-id", "r")
        [run] = scheduled.ended("cleared")
        assert run.state is RunState.FAILED
        scheduled.project.path("healed").touch()

    def clear(self, scheduled: Scheduled, *options: str) -> int:
        """Clear the task, and return how many of its runs the next one found recorded."""
        project = scheduled.project
        before = project.tasks("cleared")["work"].attempt
        done = project.holdfast("tasks", "clear", "cleared", "r", "work", "--yes", *options)
        assert done.status == 0, done.err
        wait_until(lambda: project.tasks("cleared")["work"].attempt > before)
        [run] = scheduled.ended("cleared")
        assert run.state is RunState.SUCCESS
        [found] = project.result("work", "cleared")
        return int(found)

    @pytest.mark.full
    def test_a_failed_task_resumes_and_a_succeeded_one_starts_over(
        self, scheduled: Scheduled
    ) -> None:
        assert self.clear(scheduled) == 1
        assert self.clear(scheduled) == 0
        assert self.clear(scheduled, "--keep-state") == 1
        assert self.clear(scheduled, "--discard-state") == 0


def test_expired_entries_are_removed_at_their_interval(scheduled: Scheduled) -> None:
    store = scheduled.project.store
    scope = TaskScope("script", "r", "t")
    store.execute(c.RegisterTask(scope))
    past = datetime.now(UTC) - timedelta(days=1)
    store.execute(c.Set(scope, "old", "1", ApiWriter("ann"), past))
    now = store.execute(c.Now())

    wait_until(lambda: store.execute(c.CountExpired(now)) == 0)


SLOW = """
with DAG("slow", schedule="@once"):

    @task
    def before():
        note("before")

    @task
    def work(task_store=None):
        note("work")
        task_store.set("tries", task_store.get("tries", 0) + 1)
        while not os.path.exists("go"):
            time.sleep(0.05)

    before() >> work()
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_another_scheduler_resumes_the_runs_of_a_stopped_one(
    project: Project, number: signal.Signals
) -> None:
    project.write("dags/slow.py", HEAD + SLOW)
    with project.service("scheduler", "dags") as process:
        wait_until(lambda: project.read("notes") == "before\nwork\n")
        process.send_signal(number)
        status = process.wait(timeout=30)
        if number is signal.SIGTERM:
            assert project.processes() == []
            assert status == 0
    project.path("go").touch()

    with project.service("scheduler", "dags"):
        wait_until(lambda: project.runs("slow")[0].state is RunState.SUCCESS)

    assert "Traceback" not in project.read("scheduler.err")
    assert project.read("notes") == "before\nwork\nwork\n"
    [run] = project.runs("slow")
    assert [one.outcome for one in project.attempts("work", "slow", run.run_id)] == [
        "interrupted",
        "success",
    ]


@pytest.mark.full
def test_the_dag_of_a_file_removed_while_no_scheduler_ran_is_in_no_file(project: Project) -> None:
    project.write("dags/here.py", HEAD + 'with DAG("here"):' + ONE_TASK)
    project.write("dags/gone.py", HEAD + 'with DAG("gone"):' + ONE_TASK)
    project.write("elsewhere.py", HEAD + 'with DAG("elsewhere"):' + ONE_TASK)
    assert project.holdfast("run", "elsewhere.py").status == 0
    for name in ("here", "gone"):
        assert project.holdfast("run", f"dags/{name}.py").status == 0
    project.path("dags/gone.py").unlink()

    with project.service("scheduler", "dags"):
        wait_until(lambda: not project.store.execute(c.GetDag("gone")).file)
        infos = project.store.execute(c.ListDags())

    holders = {info.dag_id: info.file for info in infos}
    assert holders == {"elsewhere": "elsewhere.py", "gone": "", "here": "here.py"}


def test_a_missing_directory_is_an_error(project: Project) -> None:
    ended = project.holdfast("scheduler", "missing")

    assert ended.status == 1
    assert ended.err.startswith("error: there is no directory missing\nhint: ")
