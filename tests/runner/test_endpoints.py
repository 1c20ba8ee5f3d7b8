"""Processes beside the task's own reach its stores over HTTP, for as long as its attempt lives."""

from __future__ import annotations

import json

import pytest
from project import Project
from serving import Served

import holdfast
from holdfast.errors import StaleAttempt

BESIDE = """
    import json, sys
    import holdfast
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
        ):
            try:
                found.append(forbidden())
            except HoldfastError as error:
                found.append(error.code)
    print(json.dumps(found))
    """
DAG = """
    import json, subprocess, sys
    from holdfast.sdk import DAG, Asset, task

    with DAG("d"):

        @task(outlets=[Asset("customers")])
        def before(task_store=None, asset_store=None):
            task_store.set("mine", 1)
            asset_store.set("newest", 3)

        @task(outlets=[Asset("orders", uri="s3://lake/orders")])
        def work(task_store=None):
            task_store.set("begun", True)
            endpoint = task_store._store.endpoint()
            with open("endpoint.json", "w") as file:
                json.dump([endpoint.url, endpoint.token], file)
            beside = [sys.executable, "beside.py", endpoint.url, endpoint.token]
            return json.loads(subprocess.check_output(beside))

        before() >> work()
    """


def check(project: Project) -> None:
    assert project.result("work") == [[True, "forbidden", "forbidden"]]
    assert project.task_store("work") == {"begun": True, "part": 7}
    assert project.asset_store("orders") == {"newest": 12}


def test_another_process_has_the_stores_of_the_attempt_and_no_others(project: Project) -> None:
    project.write("beside.py", BESIDE)

    result = project.run_dag(DAG)

    assert result.status == 0, result.err + project.log("work")
    check(project)


def test_the_server_that_is_configured_gives_the_token_and_refuses_it_after_the_attempt(
    project: Project,
) -> None:
    project.write("beside.py", BESIDE)
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
