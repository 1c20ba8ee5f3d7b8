"""`holdfast run`: runs of DAG files, and their effects in the store."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise

import pytest
from project import Project, Result, wait_until
from terminal import Terminal

from holdfast.model.run import Outcome, RunKind, RunState

HEAD = """\
import os, time
from datetime import datetime, timedelta
from holdfast.sdk import *
from holdfast.sdk.exceptions import AirflowFailException, AirflowSkipException

def note(text):
    with open("notes", "a") as notes:
        notes.write(text + "\\n")
"""

FLOW = (
    HEAD
    + """
with DAG("d", params={"greeting": "hello", "who": "nobody"}) as dag:

    @task
    def numbers():
        return [1, 2, 3]

    @task
    def double(x, ti=None):
        print("doubling", x, "at", ti.map_index)
        return 2 * x

    @task
    def total(values, more):
        return sum(values) + more

    @task
    def nothing():
        return []

    @task
    def literal(x):
        return x.upper()

    @task
    def pair(a, b):
        return f"{a}{b}"

    @task
    async def later(value, task_store=None):
        await task_store.aset("value", value)
        return await task_store.aget("value") + 1

    @task
    def described(params=None, dag_run=None, run_id=None, logical_date=None):
        return [params["greeting"], params["who"], dag_run.conf, run_id, logical_date.tzname()]

    @task
    def skipping():
        raise AirflowSkipException("no rows today")

    @task
    def after_skipping():
        note("after_skipping ran")

    @task(trigger_rule="none_failed")
    def whatever():
        return "ran"

    class Shout(BaseOperator):
        def __init__(self, text, **kwargs):
            super().__init__(**kwargs)
            self.text = text

        def execute(self, context):
            return self.text.upper()

    doubled = double.expand(x=numbers())
    later(total(doubled, more=100))
    double.override(task_id="none").expand(x=nothing())
    literal.expand(x=["a", "b"])
    pair.partial(a="x").expand(b=["1", "2"])
    pair.override(task_id="cross").expand(a=["1", "2"], b=["x", "y"])
    described()
    skipped = skipping()
    skipped >> after_skipping()
    skipped >> whatever()
    Shout(task_id="shout", text="hey")
"""
)


@pytest.fixture(scope="module")
def flow(shared_project: Callable[..., Project]) -> tuple[Project, Result]:
    project = shared_project()
    return project, project.run_dag(FLOW, "--conf", '{"who": "Ada", "extra": 1}')


class TestADagThatSucceeds:
    @pytest.fixture(autouse=True)
    def _ran(self, flow: tuple[Project, Result]) -> None:
        self.project, self.ended = flow

    def test_ends_with_status_0_and_a_run_that_succeeded(self) -> None:
        run = self.project.run_of()

        assert self.ended.status == 0, self.ended.err
        assert (run.state, run.kind) == (RunState.SUCCESS, RunKind.MANUAL)
        assert run.owner is None and run.ended_at is not None

    def test_prints_a_line_for_each_task(self) -> None:
        assert self.ended.out == ""
        assert "run r of d running" in self.ended.err
        assert "double[2] attempt 1 success after" in self.ended.err
        assert "skipping attempt 1 skipped" in self.ended.err and "no rows today" in self.ended.err
        assert "run r of d success after" in self.ended.err

    def test_passes_results_on(self) -> None:
        assert self.project.result("double") == [2, 4, 6]
        assert self.project.result("total") == [112]
        assert self.project.result("shout") == ["HEY"]

    def test_maps_over_literals_and_every_combination_of_them(self) -> None:
        assert self.project.result("literal") == ["A", "B"]
        assert self.project.result("pair") == ["x1", "x2"]
        assert self.project.result("cross") == ["1x", "1y", "2x", "2y"]

    def test_skips_what_is_mapped_over_nothing(self) -> None:
        none = self.project.tasks()["none"]

        assert (none.state, none.attempt) == ("skipped", 0)
        assert none.error == "there is nothing to map over"

    def test_runs_async_tasks_with_their_store(self) -> None:
        assert self.project.result("later") == [113]
        assert self.project.task_store("later") == {"value": 112}

    def test_passes_the_context_to_tasks(self) -> None:
        greeting = ["hello", "Ada", {"who": "Ada", "extra": 1}, "r", "UTC"]

        assert self.project.result("described") == [greeting]

    def test_skips_what_follows_a_skipped_task_unless_the_rule_says_otherwise(self) -> None:
        states = self.project.states()

        assert (states["skipping"], states["after_skipping"]) == ("skipped", "skipped")
        assert self.project.result("whatever") == ["ran"]
        assert self.project.read("notes") == ""

    def test_keeps_a_log_of_each_attempt(self) -> None:
        printed = self.project.holdfast("tasks", "logs", "d", "r", "double", "--map-index", "1")

        assert "doubling 2 at 1" in self.project.log("double.1")
        assert printed == (0, self.project.log("double.1"), "")

    def test_reports_that_the_run_has_ended_when_it_is_run_again(self) -> None:
        again = self.project.holdfast("run", "dag.py", "--run-id", "r")

        assert again.status == 0
        assert "Run r has ended: success" in again.err
        assert "holdfast tasks clear" in again.err


FAILURES = (
    HEAD
    + """
def failed(context):
    note(f"failed {context['ti'].task_id}: {context['exception']}")

def retried(context):
    note(f"retry {context['ti'].try_number}")

with DAG("d", on_failure_callback=lambda context: note(f"dag: {context['reason']}")) as dag:

    @task(retries=3, retry_delay=timedelta(seconds=0.2), retry_exponential_backoff=True,
          on_retry_callback=retried, on_failure_callback=failed)
    def flaky(task_store=None, ti=None):
        print("this is try", ti.try_number)
        tries = task_store.get("tries", 0) + 1
        task_store.set("tries", tries)
        raise OSError(f"no. {tries}")

    @task(retries=5, retry_delay=0, on_success_callback=lambda context: note("recovered"))
    def recovers(task_store=None):
        if task_store.get("tried") is None:
            task_store.set("tried", True)
            os._exit(3)
        return "well"

    @task(retries=5)
    def hopeless():
        raise AirflowFailException("never mind")

    @task
    def after():
        note("after ran")

    @task(trigger_rule="all_done")
    def tidy():
        return "tidied"

    @task(trigger_rule="one_failed")
    def alarm():
        return "rang"

    @task(retries=1, retry_delay=0, execution_timeout=timedelta(seconds=0.3))
    def slow():
        time.sleep(60)

    first = flaky()
    first >> [after(), tidy(), alarm()]
    recovers()
    hopeless()
    slow()
"""
)


@pytest.fixture(scope="module")
def failures(shared_project: Callable[..., Project]) -> tuple[Project, Result]:
    project = shared_project()
    return project, project.run_dag(FAILURES)


class TestADagThatFails:
    @pytest.fixture(autouse=True)
    def _ran(self, failures: tuple[Project, Result]) -> None:
        self.project, self.ended = failures

    @pytest.mark.full
    def test_ends_with_status_1_and_a_run_that_failed(self) -> None:
        assert self.ended.status == 1
        assert self.project.run_of().state is RunState.FAILED
        assert "flaky attempt 4 failed" in self.ended.err and "OSError: no. 4" in self.ended.err

    def test_retries_with_backoff_and_the_same_task_store(self) -> None:
        attempts = self.project.attempts("flaky")
        # The delay counts from the failure, which is recorded as `ended_at` somewhat later.
        pauses = [after.started_at - before.started_at for before, after in pairwise(attempts)]

        assert [one.error for one in attempts] == [f"OSError: no. {n}" for n in (1, 2, 3, 4)]
        assert [one.exit_status for one in attempts] == [1, 1, 1, 1]
        assert [pause.total_seconds() >= 0.2 * 2**n for n, pause in enumerate(pauses)] == [True] * 3
        assert self.project.task_store("flaky") == {"tries": 4}
        assert (self.project.tasks()["flaky"].state, self.project.tasks()["flaky"].failures) == (
            "failed",
            4,
        )

    def test_retries_after_the_process_has_died(self) -> None:
        died, well = self.project.attempts("recovers")

        assert (died.outcome, died.exit_status) == (Outcome.FAILED, 3)
        assert well.outcome is Outcome.SUCCESS
        assert self.project.result("recovers") == ["well"]

    def test_does_not_retry_where_the_task_forbids_it(self) -> None:
        assert len(self.project.attempts("hopeless")) == 1

    def test_ends_a_task_that_exceeds_its_timeout(self) -> None:
        attempts = self.project.attempts("slow")

        assert len(attempts) == 2
        for one in attempts:
            assert one.error == "it took longer than its execution_timeout of 0:00:00.300000"
            assert (one.ended_at - one.started_at).total_seconds() < 5

    def test_follows_the_trigger_rules(self) -> None:
        states = self.project.states()

        assert states["after"] == "upstream_failed"
        assert self.project.result("tidy") == ["tidied"]
        assert self.project.result("alarm") == ["rang"]

    def test_calls_the_callbacks(self) -> None:
        notes = self.project.read("notes").splitlines()

        assert [line for line in notes if line.startswith("retry")] == [
            "retry 1",
            "retry 2",
            "retry 3",
        ]
        assert "failed flaky: no. 4" in notes
        assert "recovered" in notes
        assert sum(line.startswith("dag: ") for line in notes) == 1

    def test_keeps_a_log_of_each_attempt(self) -> None:
        second = self.project.holdfast("tasks", "logs", "d", "r", "flaky", "--attempt", "2")
        newest = self.project.holdfast("tasks", "logs", "d", "r", "flaky")

        assert "this is try 2" in second.out and "OSError: no. 2" in second.out
        assert "this is try" not in second.out.replace("this is try 2", "")
        assert "this is try 4" in newest.out and "Traceback" in newest.out

    def test_shows_the_attempts_with_how_they_ended(self) -> None:
        shown = self.project.holdfast("tasks", "show", "d", "r", "recovers", "--json")
        attempts = json.loads(shown.out)["attempts"]

        assert [one["exit_status"] for one in attempts] == [3, 0]
        assert (
            attempts[0]["error"] == "its process ended with exit status 3 before the task returned"
        )


ASSETS = (
    HEAD
    + """
orders = Asset("orders", uri="file:///orders")
rows = Asset("rows", uri="file:///rows")

with DAG("d", on_success_callback=lambda context: note("dag succeeded")) as dag:

    @task(outlets=[orders])
    def load(asset_store=None, outlet_events=None, task_store=None):
        task_store.set("seen", 1)
        asset_store.set("watermark", 7, on_success=True)
        outlet_events[orders].extra = {"rows": 3}
        return [asset_store.get("watermark"), os.path.exists("never")]

    @task(inlets=[orders])
    def read(asset_store=None):
        return asset_store.get("watermark")

    @task(outlets=[rows], retries=1, retry_delay=0)
    def half(asset_store=None, ti=None):
        asset_store.set("at once", ti.try_number)
        if ti.try_number == 1:
            asset_store.set("staged", "by the attempt that failed", on_success=True)
            raise ValueError("half-way")
        return asset_store.get("staged")

    load() >> read()
    half()
"""
)


@pytest.fixture(scope="module")
def ran(shared_project: Callable[..., Project]) -> Project:
    project = shared_project(HOLDFAST__STATE_STORE__CLEAR_ON_SUCCESS="true")
    ended = project.run_dag(ASSETS)
    assert ended.status == 0, ended.err
    return project


class TestAssets:
    @pytest.mark.full
    def test_staged_writes_are_visible_downstream_after_a_success(self, ran: Project) -> None:
        assert ran.result("load") == [[7, False]]
        assert ran.result("read") == [7]
        assert ran.asset_store("orders") == {"watermark": 7}

    def test_staged_writes_of_a_failed_attempt_are_dropped(self, ran: Project) -> None:
        assert ran.asset_store("rows") == {"at once": 2}

    def test_a_success_is_an_event_of_each_outlet_and_a_failure_is_none(self, ran: Project) -> None:
        assert ran.events("orders") == [{"rows": 3}]
        assert len(ran.events("rows")) == 1

    def test_a_success_clears_the_task_store_if_configured(self, ran: Project) -> None:
        assert ran.task_store("load") == {}

    def test_the_dag_calls_back(self, ran: Project) -> None:
        assert ran.read("notes") == "dag succeeded\n"


@pytest.mark.full
def test_no_more_tasks_run_at_once_than_the_limit(project: Project) -> None:
    limited = """
        import os, time
        from holdfast.sdk import DAG, task

        with DAG("d", max_active_tasks=2):

            @task
            def work(x):
                os.close(os.open(f"running-{x}", os.O_CREAT))
                time.sleep(0.2)
                most = len([name for name in os.listdir() if name.startswith("running-")])
                os.remove(f"running-{x}")
                return most

            work.expand(x=[1, 2, 3, 4, 5])
        """

    ended = project.run_dag(limited)

    assert ended.status == 0, ended.err
    assert max(project.result("work")) == 2


@pytest.mark.full
def test_a_terminal_shows_the_tasks_as_a_table(project: Project) -> None:
    project.write("dag.py", ASSETS)
    with Terminal(project, "run", "dag.py", "--run-id", "r") as terminal:
        status = terminal.finish()

        assert status == 0, terminal.screen
        rows = [line.split()[:2] for line in terminal.screen.splitlines()]
        for task_id in ("load", "read", "half"):
            assert [task_id, "success"] in rows
        assert "d success, 3 of 3 done" in terminal.screen


PROGRESS = """
    import time
    from pathlib import Path

    from holdfast.sdk import DAG, task

    with DAG("d"):

        @task
        def load(task_store):
            task_store.set("spark_progress", {"tasks": 8, "done_tasks": 2})
            while not Path("seen").exists():
                time.sleep(0.05)
            task_store.set("progress", {"files": 3, "done_files": 1})
            while not Path("seen again").exists():
                time.sleep(0.05)

        load()
    """


@pytest.mark.full
def test_a_terminal_shows_the_progress_on_spark_until_the_task_reports_its_own(
    project: Project,
) -> None:
    project.write("dag.py", PROGRESS)
    with Terminal(project, "run", "dag.py", "--run-id", "r") as terminal:
        terminal.wait_for("2/8 tasks")
        (project.directory / "seen").touch()
        terminal.wait_for("1/3 files")
        (project.directory / "seen again").touch()

        assert terminal.finish() == 0, terminal.screen


TWO = """
    from holdfast.sdk import DAG, task

    for name in ("one", "two"):
        with DAG(name):

            @task
            def hello():
                return name

            hello()
    """


@pytest.mark.full
def test_the_dag_is_chosen_among_several(project: Project) -> None:
    project.write("two.py", TWO)

    which = project.holdfast("run", "two.py")
    unknown = project.holdfast("run", "two.py", "--dag-id", "three")
    chosen = project.holdfast("run", "two.py", "--dag-id", "two", "--run-id", "r")

    assert which.status == 2 and "hint: choose one: --dag-id one | two" in which.err
    assert unknown.status == 1 and "has no DAG `three`\nhint: it has: one, two" in unknown.err
    assert chosen.status == 0 and project.result("hello", "two") == ["two"]


def test_a_conf_that_is_not_a_json_object_and_a_missing_file_are_refused(project: Project) -> None:
    missing = project.holdfast("run", "missing.py")
    broken = project.holdfast("run", "missing.py", "--conf", "{")
    number = project.holdfast("run", "missing.py", "--conf", "3")

    assert missing == (
        1,
        "",
        "error: there is no file missing.py\nhint: give the path of a DAG file\n",
    )
    assert broken.status == 2 and broken.err.startswith("error: ")
    assert number.status == 2 and "--conf is not a JSON object: 3" in number.err


WAITING = """
    import os, time
    from holdfast.sdk import DAG, task

    with DAG("d"):

        @task
        def first():
            with open("notes", "a") as notes:
                notes.write("first ran\\n")

        @task
        def second(task_store=None):
            task_store.set("tries", task_store.get("tries", 0) + 1)
            while not os.path.exists("go"):
                time.sleep(0.05)

        first() >> second()
    """


def test_a_run_held_by_another_process_is_not_executed(project: Project) -> None:
    project.write("dag.py", WAITING)
    with project.start("run", "dag.py", "--run-id", "r") as holder:
        wait_until(lambda: project.read("notes") and project.task_store("second"))

        refused = project.holdfast("run", "dag.py", "--run-id", "r")
        project.path("go").touch()
        holder.communicate(timeout=30)

    assert refused.status == 1
    assert f"process {holder.pid} on " in refused.err and "Traceback" not in refused.err
    assert holder.returncode == 0
    assert project.task_store("second") == {"tries": 1}


def test_a_run_whose_process_was_killed_resumes(project: Project) -> None:
    project.write("dag.py", WAITING)
    with project.start("run", "dag.py", "--run-id", "r") as killed:
        wait_until(lambda: project.read("notes") and project.task_store("second"))
        killed.kill()
    wait_until(lambda: not project.processes())  # until then, the task may still succeed
    project.path("go").touch()

    ended = project.holdfast("run", "dag.py", "--run-id", "r")

    assert ended.status == 0, ended.err
    assert project.read("notes") == "first ran\n"
    assert project.task_store("second") == {"tries": 2}
    assert [one.outcome for one in project.attempts("second")] == ["interrupted", "success"]
    assert project.tasks()["second"].failures == 0


@pytest.mark.full
def test_an_outlet_that_is_a_reference_has_an_event_and_a_store(project: Project) -> None:
    declared = ("--asset", "orders", "--asset-uri", "s3://lake/orders", "--declare")
    assert project.holdfast("state-store", "set", *declared, "cursor", "1").status == 0

    result = project.run_dag("""
        from holdfast.sdk import DAG, Asset, task

        with DAG("d"):

            @task(outlets=[Asset.ref(uri="s3://lake/orders")])
            def load(outlet_events, asset_store):
                asset_store.set("cursor", asset_store.get("cursor") + 1)
                outlet_events[Asset.ref(name="orders")].extra["rows"] = 3

            load()
        """)

    assert result.status == 0, result.err
    assert project.events("orders") == [{"rows": 3}]
    assert project.asset_store("orders") == {"cursor": 2}
