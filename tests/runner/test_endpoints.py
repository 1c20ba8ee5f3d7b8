"""Endpoints of attempts: other processes use the stores of a task over HTTP while its attempt is
live."""

from __future__ import annotations

import json

import pytest
from project import Project
from serving import Served
from webserver import free_port

import holdfast
from holdfast.errors import StaleAttempt

INTENT = "5d0f9d0e-7d0c-4c39-9f3a-3f7f0d9b6a11"
EXECUTOR = """
    import sys
    sys.modules.update(holdfast=None, msgspec=None)
    import pickle
    pickle.load(sys.stdin.buffer)()
    """
BESIDE = """
    import json, sys
    import holdfast
    from holdfast.commands import PlanScan
    from holdfast.errors import HoldfastError

    url, token = sys.argv[1:]
    with holdfast.connect(url, token=token) as connection:
        own = connection.task_store("d", "r", "work")
        own.set("part", 7)
        connection.asset_store(name="orders").advance("newest", 12)
        found = [own.get("begun")]
        for forbidden in (
            lambda: connection.task_store("d", "r", "before").get("mine"),
            lambda: connection.asset_store(name="customers").get("newest"),
            lambda: connection.store.execute(PlanScan("runs", 1, 1)),
        ):
            try:
                found.append(forbidden())
            except HoldfastError as error:
                found.append(error.code)
    print(json.dumps(found))
    """
DAG = """
    import json, subprocess, sys
    import holdfast
    from holdfast.errors import StaleAttempt
    from pyspark import cloudpickle
    from holdfast.sdk import DAG, Asset, task
    from holdfast.spark.handles import job_endpoint

    INTENT = "5d0f9d0e-7d0c-4c39-9f3a-3f7f0d9b6a11"

    with DAG("d"):

        @task(outlets=[Asset("customers")])
        def before(task_store=None, asset_store=None):
            task_store.set("mine", 1)
            asset_store.set("newest", 3)

        @task(outlets=[Asset("orders", uri="s3://lake/orders")])
        def work(task_store=None, asset_store=None):
            task_store.set("begun", True)
            own, orders = task_store.handle(), asset_store.handle()

            def compute():
                own.set("executor", orders.advance("newest", 9))

            executor = [sys.executable, "executor.py"]
            subprocess.run(executor, input=cloudpickle.dumps(compute), check=True)
            endpoint = task_store._store.endpoint()
            assert endpoint == own._endpoint == orders._endpoint
            with open("endpoint.json", "w") as file:
                json.dump([endpoint.url, endpoint.token], file)
            beside = [sys.executable, "beside.py", endpoint.url, endpoint.token]
            return json.loads(subprocess.check_output(beside))

        @task(outlets=[Asset("orders", uri="s3://lake/orders")])
        def submit(task_store=None, asset_store=None):
            try:
                job_endpoint(task_store, "job.intent", INTENT)
            except StaleAttempt as error:
                refused = error.code
            task_store.set("job.intent", INTENT)
            endpoint = job_endpoint(task_store, "job.intent", INTENT)
            with holdfast.connect(endpoint.url, token=endpoint.token) as job:
                job.task_store("d", "r", "submit").set("driver", "app-1")
                job.asset_store(name="orders").handle().set("driver", "app-1")
            return [refused, job_endpoint(task_store, "job.intent", INTENT).url == endpoint.url]

        before() >> work() >> submit()
    """


def check(project: Project) -> None:
    assert project.result("work") == [[True, "forbidden", "forbidden", "forbidden"]]
    assert project.task_store("work") == {"begun": True, "executor": 9, "part": 7}
    assert project.asset_store("orders") == {"driver": "app-1", "newest": 12}
    assert project.result("submit") == [["stale_attempt", True]]
    assert project.task_store("submit") == {"driver": "app-1", "job.intent": INTENT}


@pytest.mark.full
def test_another_process_uses_the_stores_of_the_attempt_at_the_advertised_address(
    project: Project,
) -> None:
    project.write("beside.py", BESIDE)
    project.write("executor.py", EXECUTOR)

    port = free_port()
    where = {
        "HOLDFAST__API__PORT": str(port),
        "HOLDFAST__API__ADVERTISE_URL": f"http://localhost:{port}",
    }

    result = project.run_dag(DAG, **where)

    assert result.status == 0, result.err + project.log("work")
    check(project)
    assert json.loads(project.read("endpoint.json"))[0] == f"http://localhost:{port}"


@pytest.mark.full
def test_the_configured_server_issues_the_token_and_refuses_it_after_the_attempt(
    project: Project,
) -> None:
    project.write("beside.py", BESIDE)
    project.write("executor.py", EXECUTOR)
    server = Served(project)

    result = project.run_dag(DAG, HOLDFAST__WORKERS__SERVER_URL=server.url)

    assert result.status == 0, result.err + project.log("work")
    check(project)
    url, token = json.loads(project.read("endpoint.json"))
    assert url == server.url
    with holdfast.connect(url, token=token) as connection:
        with pytest.raises(StaleAttempt):
            connection.task_store("d", "r", "work").get("part")
        with pytest.raises(StaleAttempt):
            connection.task_store("d", "r", "work").set("part", 8)
    server.close()
