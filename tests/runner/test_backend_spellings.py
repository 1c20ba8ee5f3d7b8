"""Worker-side backends in every spelling, in runs of one DAG."""

from __future__ import annotations

from pathlib import Path

import file_backends
import landing
import pytest
from file_backends import kept
from project import Project, wait_until

from holdfast import commands as c
from holdfast.model.scope import AssetScope
from holdfast.model.value import is_reference

DAG = """
    from holdfast.sdk import DAG, Asset, task

    orders = Asset("orders", uri="s3://lake/orders")
    clients = Asset("clients", uri="s3://lake/clients")
    VALUE = {"id": "app_1", "tries": [1, 2.5, None, True], "name": "\\u00e4 \\U0001f30d"}

    def use(store):
        store.set("deleted", VALUE)
        store.set("cleared", "2026-01-31")
        seen = [store.get("deleted") == VALUE, store.get("cleared")]
        store.delete("deleted")
        seen += [store.get("deleted"), store.get("cleared")]
        store.clear()
        seen += [store.get("cleared")]
        store.set("kept", VALUE)
        store.set("kept", "secret")
        return [*seen, store.get("kept")]

    async def ause(store):
        await store.aset("deleted", VALUE)
        await store.aset("cleared", "2026-01-31")
        seen = [await store.aget("deleted") == VALUE, await store.aget("cleared")]
        await store.adelete("deleted")
        seen += [await store.aget("deleted"), await store.aget("cleared")]
        await store.aclear()
        seen += [await store.aget("cleared")]
        await store.aset("kept", VALUE)
        await store.aset("kept", "secret")
        return [*seen, await store.aget("kept")]

    with DAG("d"):

        @task
        def in_task(task_store):
            return use(task_store)

        @task
        async def in_async_task(task_store):
            return await ause(task_store)

        @task(outlets=[orders])
        def with_asset(asset_store):
            return use(asset_store)

        @task(outlets=[clients])
        async def with_asset_async(asset_store):
            return await ause(asset_store)

        in_task(), in_async_task(), with_asset(), with_asset_async()
    """

TASKS = ("in_task", "in_async_task", "with_asset", "with_asset_async")
EXPECTED = [True, "2026-01-31", None, "2026-01-31", None, "secret"]


@pytest.fixture(autouse=True)
def use_files(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(file_backends.PLACE, str(project.path("objects")))
    project.environ |= {
        file_backends.PLACE: str(project.path("objects")),
        "PYTHONPATH": str(Path(__file__).parent),
        "HOLDFAST__WORKERS__STATE_BACKEND": "file_backends.Canonical",
    }


@pytest.mark.parametrize("backend", ["Canonical", "Airflow", "LaterDraft", "FirstDraft"])
def test_a_backend_in_any_spelling_serves_tasks_and_assets(project: Project, backend: str) -> None:
    chosen = {"HOLDFAST__WORKERS__STATE_BACKEND": f"file_backends.{backend}"}
    result = project.run_dag(DAG, **chosen)

    assert result.status == 0, result.err
    assert [project.result(task_id) for task_id in TASKS] == [[EXPECTED]] * 4
    assert "secret" not in str([project.task_store(task_id) for task_id in TASKS[:2]])
    assert "secret" not in str([project.asset_store(name) for name in ("orders", "clients")])
    assert kept() == [("kept", '"secret"')] * 4


@pytest.mark.full
def test_a_backend_serves_a_watcher(project: Project) -> None:
    project.write("dags/dag.py", landing.DAG)
    project.path("landing").mkdir()
    project.path("landing/a").touch()
    with project.service("scheduler", "dags"), project.service("triggerer"):
        wait_until(lambda: project.runs("d") and project.runs("d")[0].state.ended)

    assert [run.state for run in project.runs("d")] == ["success"]
    assert kept() == [("cursor", '"a"')]
    assert is_reference(project.store.execute(c.Get(AssetScope(name="landed"), "cursor")) or "")
    assert "Traceback" not in project.read("triggerer.err") + project.read("scheduler.err")


@pytest.mark.full
def test_a_server_side_backend_holds_only_references_to_offloaded_values(
    project: Project,
) -> None:
    result = project.run_dag(DAG, HOLDFAST__STATE_STORE__BACKEND="file_backends.ServerSide")

    assert result.status == 0, result.err
    assert [project.result(task_id) for task_id in TASKS] == [[EXPECTED]] * 4
    stored = project.read("server-side.log").splitlines()
    assert len(stored) == 16
    assert all(map(is_reference, stored))
    assert kept() == [("kept", '"secret"')] * 4
