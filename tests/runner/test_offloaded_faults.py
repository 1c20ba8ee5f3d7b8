"""Missing, unavailable or modified object storage during a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing

import pytest
from lossy import ANSWER, REQUEST, LossyProxy
from objectserver import ObjectServer, object_server
from project import Project, Result, wait_until

from holdfast import commands as c
from holdfast.accessor.task_store import TaskStore
from holdfast.errors import StaleAttempt
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.value import reference_in
from holdfast.settings import ObjectStore
from holdfast.store import Store
from holdfast.stores.offload.objects.backend import ObjectStoreBackend
from holdfast.stores.offload.store import OffloadStore

ORDERS = AssetScope(name="orders")

DAG = """
    from holdfast.sdk import DAG, Asset, task

    orders = Asset("orders", uri="s3://lake/orders")

    def failure(call, *args, **options):
        try:
            call(*args, **options)
        except Exception as error:
            return f"{type(error).__name__}: {error}"
"""

FIRST = (
    DAG
    + """
    KEYS = ["\\U0001f30d" * 512, "../..", "..", "a/../../b", "%2e%2e/", " ", "\\u202e"]

    with DAG("d"):

        @task(outlets=[orders])
        def write(asset_store):
            for key in ("kept", "gone", "changed"):
                asset_store.set(key, {"written": 1})

        @task
        def odd_keys(task_store):
            for number, key in enumerate(KEYS):
                task_store.set(key, number)
            return [task_store.get(key) for key in KEYS] == list(range(len(KEYS)))

        @task
        async def odd_keys_async(task_store):
            for number, key in enumerate(KEYS):
                await task_store.aset(key, number)
            read = [await task_store.aget(key) for key in KEYS]
            await task_store.adelete(KEYS[0])
            await task_store.aclear()
            return read == list(range(len(KEYS)))

        @task
        def refused(task_store):
            task_store.set("job", "first")
            error = failure(task_store.set, "job", "second", if_version=17)
            return [error, task_store.get("job")]

        write(), odd_keys(), odd_keys_async(), refused()
"""
)


class Storage:
    """Bucket of a real S3 server, and a project whose workers offload values to it."""

    def __init__(self, server: ObjectServer, project: Project) -> None:
        self.server, self.project = server, project
        self.url = server.make_bucket()
        project.environ |= server.environment | {
            "HOLDFAST__WORKERS__STATE_BACKEND": "holdfast.sdk.state.ObjectStoreBackend",
            "HOLDFAST__OBJECT_STORE__URL": self.url,
        }

    def run(self, text: str, run_id: str, **environ: str) -> Result:
        file = self.project.write("dag.py", text)
        return self.project.holdfast("run", file, "--run-id", run_id, **environ)

    def objects(self) -> set[str]:
        backend = ObjectStoreBackend(ObjectStore(url=self.url))
        return {stored.reference for stored in backend.list_objects()}

    def references(self) -> set[str]:
        """Return the references of all entries and their histories."""
        execute = self.project.store.execute
        texts = [at.entry.value for at in execute(c.List(c.TaskFilter())).found]
        for at in execute(c.List(c.AssetFilter())).found:
            steps = execute(c.History(at.scope, at.entry.key))
            texts += [step.value for step in steps if step.value]
        return {reference_in(text) or text for text in texts}

    def reference(self, key: str) -> str:
        text = self.project.store.execute(c.Get(ORDERS, key))
        assert text is not None
        return reference_in(text) or ""


@pytest.fixture(scope="module")
def s3() -> Iterator[ObjectServer]:
    with object_server() as server, pytest.MonkeyPatch.context() as patch:
        for name, value in server.environment.items():
            patch.setenv(name, value)
        yield server


@pytest.fixture(scope="module")
def storage(s3: ObjectServer, shared_project: Callable[..., Project]) -> Storage:
    """Return the storage after a successful run."""
    storage = Storage(s3, shared_project())
    result = storage.run(FIRST, "first")
    assert result.status == 0, result.err
    return storage


@pytest.mark.full
@pytest.mark.parametrize("task_id", ["odd_keys", "odd_keys_async"])
def test_a_key_may_have_any_characters(storage: Storage, task_id: str) -> None:
    assert storage.project.result(task_id, "d", "first") == [True]


def test_a_run_leaves_only_objects_that_entries_refer_to(storage: Storage) -> None:
    [[error, stands]] = storage.project.result("refused", "d", "first")

    assert error.startswith("VersionConflict: ")
    assert stands == "first"
    assert storage.objects() == storage.references()


class Superseded(ObjectStoreBackend):
    """Backend during whose write of an object the next attempt of the task starts."""

    store: Store

    def put(self, reference: str, scope: StoreScope, key: str, content: bytes) -> None:
        super().put(reference, scope, key, content)
        assert isinstance(scope, TaskScope)
        self.store.execute(c.StartAttempt(scope))


def test_an_attempt_superseded_during_a_write_changes_nothing_and_leaves_no_object(
    storage: Storage,
) -> None:
    inner, scope = storage.project.store, TaskScope("script", "monday", "load")
    inner.execute(c.RegisterTask(scope))
    backend = Superseded(ObjectStore(url=storage.url))
    backend.store, store = inner, OffloadStore(inner, backend)
    before = OffloadStore(inner, ObjectStoreBackend(ObjectStore(url=storage.url)))
    TaskStore(before, scope, ApiWriter("ann")).set("job", "first")
    zombie = TaskWriter(scope, inner.execute(c.StartAttempt(scope)))

    with pytest.raises(StaleAttempt):
        TaskStore(store, scope, zombie).set("job", "the zombie's")
    assert len(storage.objects()) == len(storage.references()) + 1
    store.purge()

    assert TaskStore(before, scope, ApiWriter("ann")).get("job") == "first"
    assert storage.objects() == storage.references()


def test_without_its_bucket_a_write_fails_and_the_old_value_is_kept(storage: Storage) -> None:
    before = storage.reference("kept")

    result = storage.run(
        DAG
        + """
    with DAG("d"):

        @task(outlets=[orders])
        def overwrite(asset_store):
            asset_store.set("kept", {"written": 2})

        overwrite()
""",
        "homeless",
        HOLDFAST__OBJECT_STORE__URL="s3://no-such-bucket",
    )

    assert result.status == 1
    [attempt] = storage.project.attempts("overwrite", "d", "homeless")
    assert "no-such-bucket" in (attempt.error or "")
    assert "BackendFailed" in (attempt.error or "")
    assert storage.reference("kept") == before


@pytest.mark.full
def test_an_object_that_was_deleted_or_changed_is_an_error_that_names_it(storage: Storage) -> None:
    gone, changed = storage.reference("gone"), storage.reference("changed")
    ObjectStoreBackend(ObjectStore(url=storage.url)).remove([gone])
    storage.server.overwrite(changed, b'{"written":3}')

    result = storage.run(
        DAG
        + """
    with DAG("d"):

        @task(inlets=[orders])
        def read(asset_store):
            errors = [failure(asset_store.get, key) for key in ("gone", "changed")]
            asset_store.set("gone", {"written": 4})
            return [*errors, asset_store.get("gone")]

        read()
""",
        "damaged",
    )

    assert result.status == 0, result.err
    [[first, second, repaired]] = storage.project.result("read", "d", "damaged")
    assert gone in first
    assert changed in second
    assert "another digest" in second
    assert repaired == {"written": 4}


@pytest.mark.full
def test_a_temporarily_unavailable_object_store_only_delays_the_run(
    s3: ObjectServer, project: Project
) -> None:
    Storage(s3, project)
    file = project.write(
        "dag.py",
        DAG
        + """
    import os, time

    with DAG("d"):

        @task
        def write(task_store):
            for number in range(20):
                task_store.set(f"key {number}", number)
                if number == 10:
                    open("half-way", "w").close()
                    while not os.path.exists("gone"):
                        time.sleep(0.02)
            return task_store.items() == sorted((f"key {n}", n) for n in range(20))

        write()
""",
    )
    with (
        closing(LossyProxy(s3.endpoint)) as proxy,
        project.start("run", file, "--run-id", "r", AWS_ENDPOINT_URL=proxy.url) as run,
    ):
        wait_until(project.path("half-way").exists)
        proxy.losses = [REQUEST, ANSWER, REQUEST, ANSWER]
        project.path("gone").touch()
        assert run.wait(60) == 0

        assert proxy.losses == []
    assert project.result("write") == [True]
