"""Attacks by the code of a task through the pipe to its supervisor, under the real runner."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from project import Project, new_project

from holdfast import commands as c
from holdfast.model.run import Outcome
from holdfast.wire.channel import LARGEST_OF_TASK

FORBIDDEN = {
    "read another task's entry": "c.Get(VICTIM, 'password')",
    "read another map index's entry": "c.Get(TaskScope('d', 'r', 'attacker', 0), 'k')",
    "list another task's entries": "c.List(VICTIM)",
    "list every task's entries": "c.List(c.TaskFilter())",
    "list every asset's entries": "c.List(c.AssetFilter())",
    "list the assets": "c.ListAssets()",
    "list events": "c.ListAssetEvents()",
    "list what is behind an alias": "c.AliasAssets('landed')",
    "list another task's attempts": "c.ListAttempts(VICTIM)",
    "read another run": "c.GetRun('d', 'other')",
    "read what another run returned": "c.GetResults('d', 'other', 'victim')",
    "write another task's entry": "c.Set(VICTIM, 'password', '1', ME)",
    "read an undeclared asset": "c.Get(SECRET, 'watermark')",
    "read an undeclared asset by its id": "c.Get(AssetScope(asset_id=SECRET_ID), 'watermark')",
    "read an undeclared asset behind a declared name": (
        "c.Get(AssetScope(asset_id=SECRET_ID, name='own'), 'watermark')"
    ),
    "read the history of an undeclared asset": "c.History(SECRET, 'watermark')",
    "write an undeclared asset": "c.Set(SECRET, 'watermark', '9', ME)",
    "write an undeclared asset by its URI": (
        "c.Set(AssetScope(uri='file:///secret'), 'watermark', '9', ME)"
    ),
    "write an undeclared asset by its id": "c.Set(AssetScope(SECRET_ID), 'watermark', '9', ME)",
    "stage a write to an undeclared asset": "c.Set(SECRET, 'watermark', '9', ME, on_success=True)",
    "advance an undeclared asset": "c.Advance(SECRET, 'watermark', '9', ME)",
    "clear an undeclared asset": "c.Clear(SECRET, ME)",
    "rewind an undeclared asset": "c.Rewind(SECRET, 'watermark', c.ToVersion(1), ME)",
    "preview a rewind of an undeclared asset": (
        "c.Rewind(SECRET, 'watermark', c.ToVersion(1), ME, True)"
    ),
    "reserve objects of an undeclared asset": "c.ReserveObjects(SECRET, (('k', '', 'x'),), ME)",
    "take the purges of an undeclared asset": (
        "c.TakePurges(1, timedelta(seconds=5), 'x', c.Part(SECRET))"
    ),
    "take all purges": "c.TakePurges(1, timedelta(seconds=5), 'x')",
}
INVALID = {
    "text that is no JSON": "c.Set(OWN, 'k', 'not json', ME)",
    "text that is no JSON among others": "c.SetMany(OWN, (('a', '1'), ('k', '{')), ME)",
    "text that is no JSON in the task store": "c.Set(ME.scope, 'k', 'NaN', ME)",
    "JSON that is nested too deeply": "c.Set(OWN, 'k', '[' * 20_000 + ']' * 20_000, ME)",
    "an integer beyond 64 bits": "c.Set(OWN, 'k', '1' + '0' * 30, ME)",
    "an advance that is no JSON": "c.Advance(OWN, 'k', 'not json', ME)",
    "null": "c.Set(OWN, 'k', 'null', ME)",
    "a version that no database takes": "c.Set(OWN, 'k', '1', ME, if_version=2**64 - 1)",
    "a limit below zero": "c.List(OWN, limit=-1)",
    "text with U+0000": "c.List(OWN, prefix='a\\0b')",
}
DAG = f"""
    import os, struct
    from datetime import timedelta
    import msgspec
    from holdfast import commands as c
    from holdfast.errors import HoldfastError
    from holdfast.model.scope import AssetScope, TaskScope
    from holdfast.sdk import DAG, Asset, AssetAlias, task

    OWN, SECRET = AssetScope(name="own"), AssetScope(name="secret")
    VICTIM = TaskScope("d", "r", "victim")

    def outcome(store, command):
        try:
            store.execute(command())
        except HoldfastError as error:
            return error.code
        return "done"

    def report(task_store, **fields):
        data = msgspec.msgpack.encode({{"type": "succeeded", **fields}})
        sock = task_store._store._channel.sock
        sock.sendall(struct.pack(">I", len(data) + 1) + b"R" + data)
        os._exit(0)

    def event(name, *aliases):
        return {{"name": name, "uri": name, "extra": "{{}}", "aliases": aliases}}

    with DAG("d"):

        @task(outlets=[Asset("secret", uri="file:///secret"), AssetAlias("landed")])
        def victim(task_store, asset_store, outlet_events):
            task_store.set("password", "hunter2")
            asset_store.set("watermark", 7)
            outlet_events[AssetAlias("landed")].add(Asset("file", uri="file:///file"))
            return task_store._store.execute(c.GetAsset(SECRET)).asset_id

        @task(outlets=[Asset("own")])
        def attacker(secret_id, task_store):
            names = globals() | {{"ME": task_store._writer, "SECRET_ID": secret_id}}
            return {{
                name: outcome(task_store._store, lambda: eval(text, names))
                for name, text in {FORBIDDEN | INVALID!r}.items()
            }}

        @task(inlets=[AssetAlias("landed"), Asset.ref(name="secret")], outlets=[Asset("own")])
        def reader(task_store, asset_store, ti):
            store, me = task_store._store, task_store._writer
            asset_store[Asset("file", uri="file:///file")].set("rows", 3)
            known = [store.execute(c.GetAsset(AssetScope(name=name))).scope
                     for name in ("file", "secret", "own")]
            by_id = [AssetScope(asset_id=one.asset_id) for one in known]
            by_uri = [AssetScope(uri=one.uri) for one in known]
            for scope in (*by_id, *by_uri):
                store.execute(c.Set(scope, "k", "1", me))
            return [asset_store[Asset.ref(name="secret")].get("watermark"), ti.xcom_pull("victim")]

        @task(outlets=[Asset("own"), AssetAlias("found")])
        def forges_an_asset(task_store):
            report(task_store, events=[event("own"), event("forged")])

        @task(outlets=[Asset("own"), AssetAlias("found")])
        def forges_an_alias(task_store):
            report(task_store, events=[event("own", "found"), event("forged", "landed")])

        @task(outlets=[Asset("own"), AssetAlias("found")])
        def reports_its_own(task_store):
            report(task_store, events=[event("own"), event("by alias", "found")])

        @task
        def stores_much(task_store):
            try:
                task_store.set("much", "x" * {LARGEST_OF_TASK})
            except HoldfastError as error:
                task_store.set("refused", str(error))

        @task
        def reads_much(task_store):
            for number in range(3):
                task_store.set(str(number), "x" * ({LARGEST_OF_TASK} // 2))
            listed = task_store.items()
            task_store.clear()
            task_store.set("listed", [key for key, _ in listed])

        @task
        def returns_much():
            return "x" * {LARGEST_OF_TASK}

        @task(trigger_rule="all_done")
        def done():
            pass

        secret_id = victim()
        attacks = [attacker(secret_id), secret_id >> reader()]
        attacks += [forges_an_asset(), forges_an_alias(), reports_its_own()]
        attacks += [stores_much(), reads_much(), returns_much()]
        attacks >> done()
    """


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    with new_project(tmp_path_factory.mktemp("project")) as project:
        ended = project.run_dag(DAG, timeout=300)
        assert project.states().get("done") == "success", ended.err
        yield project


@pytest.fixture(scope="module")
def outcomes(ran: Project) -> dict[str, str]:
    [outcomes] = ran.result("attacker")
    return dict(outcomes)


@pytest.mark.full
@pytest.mark.parametrize("attack", FORBIDDEN)
def test_a_task_may_not_execute_forbidden_commands(attack: str, outcomes: dict[str, str]) -> None:
    assert outcomes[attack] == "forbidden"


@pytest.mark.parametrize("attack", INVALID)
def test_a_task_may_not_send_invalid_commands(attack: str, outcomes: dict[str, str]) -> None:
    assert outcomes[attack] == "invalid"


def test_attacked_entries_are_unchanged(ran: Project) -> None:
    assert ran.task_store("victim") == {"password": "hunter2"}
    assert ran.task_store("attacker") == {}
    assert ran.asset_store("secret") == {"watermark": 7, "k": 1}


def test_a_task_reaches_what_it_declares_by_name_uri_and_id(ran: Project) -> None:
    [[watermark, result]] = ran.result("reader")

    assert (watermark, result) == (7, *ran.result("victim"))
    assert ran.asset_store("file") == {"rows": 3, "k": 1}
    assert ran.asset_store("own") == {"k": 1}


@pytest.mark.parametrize("task_id", ["forges_an_asset", "forges_an_alias"])
def test_a_forged_event_fails_its_attempt(ran: Project, task_id: str) -> None:
    [attempt] = ran.attempts(task_id)

    assert attempt.outcome is Outcome.FAILED
    assert "an event of asset `forged`" in attempt.error
    assert "not among the outlets" in attempt.error


def test_only_events_of_a_tasks_own_outlets_are_recorded(ran: Project) -> None:
    known = {asset.name for asset in ran.store.execute(c.ListAssets())}

    assert ran.states()["reports_its_own"] == "success"
    assert known == {"secret", "file", "own", "by alias"}
    assert ran.events("by alias") == [{}]


def test_a_task_gets_an_error_for_a_value_that_is_too_large_and_continues(ran: Project) -> None:
    stored: dict[str, Any] = ran.task_store("stores_much")

    assert ran.states()["stores_much"] == "success"
    assert stored.keys() == {"refused"}
    assert "`much` of task d/r/stores_much" in stored["refused"]
    assert f"the limit is {LARGEST_OF_TASK:,}" in stored["refused"]


def test_a_task_lists_values_that_are_too_large_for_one_message(ran: Project) -> None:
    assert ran.task_store("reads_much") == {"listed": ["0", "1", "2"]}


def test_a_result_that_is_too_large_is_recorded_as_the_error(ran: Project) -> None:
    [attempt] = ran.attempts("returns_much")

    assert attempt.outcome is Outcome.FAILED
    assert "its result cannot be sent" in attempt.error
    assert f"the limit is {LARGEST_OF_TASK:,}" in attempt.error
