"""Applications that tasks submit to a real cluster, and by `spark-submit` on this machine."""

from __future__ import annotations

import json
import shutil
import socket
import sys
import time
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from kept import await_true
from standalone import StandaloneCluster, standalone_cluster

from holdfast import commands as c
from holdfast.model.run import TaskInstance
from holdfast.model.value import decode
from holdfast.spark.jobs.clusters import State
from holdfast.spark.jobs.clusters.local import LocalSubmit
from holdfast.stores.sql import SqlStore

LONGEST = 180.0
HOLDFAST = [sys.executable, "-m", "holdfast"]
DAG = """
import os
from datetime import timedelta
from pathlib import Path
from holdfast.sdk import DAG, Asset
from holdfast.spark.jobs.job import SparkJob

HERE = Path(__file__).parent
LOCAL = dict(master="local[1]")
CLUSTER = dict(
    master=os.environ["TEST_MASTER"],
    rest_url=os.environ["TEST_REST"],
    page_url=os.environ["TEST_PAGE"],
    deploy_mode="cluster",
    conf={
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.cores.max": 1,
        "spark.ui.enabled": False,
    },
)
with DAG("d"):
"""
LOADS = """
import sys
import greeting
from holdfast.spark.jobs.driver import driver

with driver() as job:
    from pyspark import SparkFiles
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.getOrCreate()
    job.report(spark)
    with open(SparkFiles.get("factor.txt")) as file:
        factor = int(file.read())
    total = spark.range(5).selectExpr(f"sum(id * {factor})").first()[0]
    job.task_store.set("total", total)
    job.asset_store(name="orders").set("watermark", total)
    print(greeting.TEXT, *sys.argv[1:], spark.conf.get("spark.app.name"))
    spark.stop()
"""
FAILS = """
print("cannot go on")
raise RuntimeError("there is no disk left")
"""
WAITS = """
import sys, time
from pathlib import Path
from holdfast.spark.jobs.driver import driver

with driver() as job:
    name, go = sys.argv[1:]
    with open(f"{name}.work", "a") as work:
        work.write(f"{job.intent}\\n")
    while not Path(go).exists():
        time.sleep(0.1)
    job.task_store.set("went", go)
"""


class Site:
    """Project, and the cluster that its DAGs submit to."""

    def __init__(self, directory: Path, cluster: StandaloneCluster) -> None:
        self.directory = directory
        self.cluster = cluster
        self._processes: list[psutil.Popen] = []

    def write(self, name: str, text: str) -> None:
        (self.directory / name).write_text(text)

    def read(self, name: str) -> list[str]:
        """Return the lines of a file, none if it is missing."""
        path = self.directory / name
        return path.read_text().splitlines() if path.exists() else []

    def start(self, *arguments: str) -> psutil.Popen:
        """Start a `holdfast` command."""
        with open(self.directory / "output.txt", "ab") as output:
            process = psutil.Popen(
                [*HOLDFAST, *arguments], cwd=self.directory, stdout=output, stderr=output
            )
        self._processes.append(process)
        return process

    def run(self, *arguments: str) -> int:
        return int(self.start(*arguments).wait(LONGEST))

    @property
    def store(self) -> SqlStore:
        return SqlStore(f"sqlite:///{self.directory / '.holdfast' / 'holdfast.db'}")

    def task_store(self, task_id: str) -> dict[str, Any]:
        with self.store as store:
            found = store.execute(c.List(c.TaskFilter("d", "r", task_id))).found
        return {one.entry.key: decode(one.entry.value) for one in found}

    def instance(self, task_id: str) -> TaskInstance:
        with self.store as store:
            found = store.execute(c.ListTaskInstances(dag_id="d", run_id="r", task_id=task_id))
        return found[0]

    def log(self, task_id: str, attempt: int = 1) -> str:
        file = self.directory / ".holdfast" / "logs" / "d" / "r" / task_id / f"{attempt}.log"
        return file.read_text() if file.exists() else ""

    def drivers(self) -> dict[str, str]:
        """Return the state of each driver that the cluster knows."""
        with urllib.request.urlopen(f"{self.cluster.page}/json/") as answer:
            state = json.load(answer)
        return {
            one["id"]: one["state"] for one in state["activedrivers"] + state["completeddrivers"]
        }

    def output(self) -> str:
        return (self.directory / "output.txt").read_text()

    def close(self) -> None:
        """End all processes, also those that a failed test has left."""
        self.write("go", "")
        for process in self._processes:
            if process.is_running():
                process.kill()
            process.wait()
        home = self.directory / ".holdfast"
        for job in home.glob("spark/jobs/*"):
            LocalSubmit("local", home).cancel(job.name)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneCluster]:
    with standalone_cluster(tmp_path_factory.mktemp("cluster")) as cluster:
        yield cluster


@pytest.fixture
def site(
    tmp_path: Path, cluster: StandaloneCluster, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Site]:
    monkeypatch.setenv("TEST_MASTER", cluster.master)
    monkeypatch.setenv("TEST_REST", cluster.rest)
    monkeypatch.setenv("TEST_PAGE", cluster.page)
    site = Site(tmp_path, cluster)
    for name, text in {"loads.py": LOADS, "fails.py": FAILS, "waits.py": WAITS}.items():
        site.write(name, text)
    yield site
    site.close()


@pytest.mark.full
def test_applications_run_with_all_their_arguments(site: Site) -> None:
    with zipfile.ZipFile(site.directory / "greeting.zip", "w") as packed:
        packed.writestr("greeting.py", "TEXT = 'good morning'")
    site.write("factor.txt", "3")
    derby = next(Path(sys.prefix).glob("lib/python*/site-packages/pyspark/jars/derbytools-*.jar"))
    shutil.copy(derby, site.directory / "tools.jar")
    loads = (
        'application="loads.py", args=["a b", 7], files=["factor.txt"], py_files=["greeting.zip"], '
        'outlets=[Asset("orders")], name="load of orders", poll_interval=1'
    )
    site.write(
        "dag.py",
        f"""{DAG}
    SparkJob(task_id="local", {loads}, **LOCAL)
    SparkJob(task_id="cluster", {loads}, **CLUSTER)
    SparkJob(task_id="jar", application="tools.jar", main_class="org.apache.derby.tools.sysinfo",
             poll_interval=1, **CLUSTER)
    SparkJob(task_id="fails", application="fails.py", poll_interval=1, **CLUSTER)
    SparkJob(task_id="late", application="waits.py", args=[HERE / "late", HERE / "never"],
             poll_interval=1, execution_timeout=timedelta(seconds=15), **LOCAL)
    SparkJob(task_id="refused", application="fails.py",
             **{{**CLUSTER, "conf": {{"spark.driver.memory": "plenty"}}}})
""",
    )

    assert site.run("run", "dag.py", "--run-id", "r") == 1

    for task_id in ("local", "cluster"):
        assert site.instance(task_id).state == "success", site.log(task_id)
        store = site.task_store(task_id)
        assert store["total"] == 30
        claim = store["spark_job.driver"]
        assert claim["succeeded"] is True
        assert claim["application"].startswith("local-" if task_id == "local" else "app-")
        assert "| good morning a b 7 load of orders" in site.log(task_id)
    assert site.instance("jar").state == "success", site.log("jar")
    assert "| ------------------ Java Information" in site.log("jar")
    failure = "of fails.py failed: RuntimeError: there is no disk left"
    assert site.instance("fails").error.endswith(failure), site.log("fails")
    assert "| cannot go on\n" in site.log("fails")
    assert site.log("fails").count("Traceback (most recent call last)") == 1
    late = site.task_store("late")["spark_job"]
    assert "longer than its execution_timeout" in site.instance("late").error
    assert LocalSubmit("", site.directory / ".holdfast").status(late).state is State.CANCELLED
    assert (
        f"the master at {site.cluster.rest} refused the request" in site.instance("refused").error
    )
    assert "hint: check the numbers and sizes in conf=" in site.log("refused")


@pytest.mark.full
def test_a_job_outlives_its_runner_is_found_again_and_ends_when_its_task_is_cleared(
    site: Site,
) -> None:
    site.write(
        "dag.py",
        f"""{DAG}
    for name, place in dict(here=LOCAL, there=CLUSTER).items():
        SparkJob(task_id=name, application="waits.py", args=[HERE / name, HERE / "go"],
                 poll_interval=1, **place)
""",
    )
    names = ("here", "there")
    stopped = site.start("run", "dag.py", "--run-id", "r")
    await_true(lambda: all(site.read(f"{name}.work") for name in names), LONGEST)

    stopped.terminate()
    assert stopped.wait(LONGEST) != 0
    again = site.start("run", "dag.py", "--run-id", "r")
    await_true(lambda: all("reconnecting" in site.log(name, 2) for name in names), LONGEST)
    first = {name: site.read(f"{name}.work") for name in names}
    assert site.run("tasks", "clear", "d", "r", "--yes") == 0
    await_true(lambda: all(len(site.read(f"{name}.work")) == 2 for name in names), LONGEST)
    site.write("go", "")

    assert again.wait(LONGEST) == 0, site.output()
    for name in names:
        assert "cancelling job" in site.log(name, 2) + site.log(name, 3)
        assert len(first[name]) == 1
        assert len(set(site.read(f"{name}.work"))) == 2
        assert site.instance(name).state == "success"
    assert sorted(site.drivers().values()).count("RUNNING") == 0
    assert "KILLED" in site.drivers().values()


@pytest.mark.full
def test_a_job_continues_while_the_master_and_the_store_are_unavailable(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    site.write("holdfast.toml", f'[workers]\nserver_url = "http://127.0.0.1:{port}"\n')
    site.write(
        "dag.py",
        f"""{DAG}
    SparkJob(task_id="there", application="waits.py", args=[HERE / "there", HERE / "go"],
             poll_interval=0.5, **CLUSTER)
""",
    )
    server = site.start("server", "--port", str(port))
    running = site.start("run", "dag.py", "--run-id", "r")
    await_true(lambda: site.read("there.work"), LONGEST)

    site.cluster.kill_master()
    server.kill()
    site.write("go", "")
    time.sleep(5)
    site.start("server", "--port", str(port))
    site.cluster.start_master()

    assert running.wait(LONGEST) == 0, site.output() + site.log("there")
    assert site.task_store("there")["went"] == str(site.directory / "go")
    assert len(site.read("there.work")) == 1
    assert "does not answer" in site.log("there")
