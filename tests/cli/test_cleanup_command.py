"""`holdfast state-store clean`: dry runs, batches, orphans and custom backends."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast.commands import (
    AssetFilter,
    CleanUpBackend,
    Command,
    DeclareDagAssets,
    DeleteExpired,
    ForgetRequests,
    List,
    Now,
    Set,
    TaskFilter,
)
from holdfast.model.entry import ApiWriter, BackendCleanup
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.store import Store

SPELLINGS = ["cleanup-task-store", "cleanup-task-states", "clean"]
ROWS = [f"etl\tr1\tload\t{index}\told key" for index in range(3)]


class CustomStore(Store):
    """Custom backend whose rows only it can see, for cleanup."""

    def __init__(self, cleans_up: bool) -> None:
        self.cleans_up = cleans_up
        self.calls = 0

    def supports(self, command: type[Command[Any]]) -> bool:
        return command is not DeleteExpired

    def execute(self, command: Command[Any]) -> Any:
        if isinstance(command, Now):
            return datetime.now(UTC)
        if isinstance(command, ForgetRequests):
            return 0
        assert isinstance(command, CleanUpBackend)
        self.calls += not command.dry_run
        return BackendCleanup("custom.Backend", self.cleans_up)


@pytest.fixture
def custom(monkeypatch, project):
    def make(cleans_up: bool) -> CustomStore:
        store = CustomStore(cleans_up)
        monkeypatch.setattr("holdfast.connection.open_store", lambda settings, **options: store)
        (project / "holdfast.toml").write_text('[state_store]\nbackend = "custom.Backend"')
        return store

    return make


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_cleanup_reports_that_nothing_has_expired(holdfast, spelling):
    assert holdfast("state-store", spelling, "--dry-run") == (0, "Nothing to delete.\n", "")
    assert holdfast("state-store", spelling) == (0, "Nothing to delete.\n", "")


def test_a_dry_run_shows_each_row_and_deletes_none(holdfast, mapped):
    result = holdfast("state-store", "cleanup-task-store", "--dry-run")

    assert result.out.splitlines() == ["3 rows would be deleted:", *ROWS]
    assert holdfast("state-store", "cleanup-task-store").out == "3 rows deleted.\n"


@pytest.mark.parametrize("flags", [(), ("--batch-size", "2"), ("--batch-size", "0")])
def test_a_cleanup_prints_the_number_of_deleted_rows(holdfast, mapped, flags):
    result = holdfast("state-store", "cleanup-task-store", *flags)

    assert result == (0, "3 rows deleted.\n", "")
    assert mapped.execute(List(TaskFilter())).total == 3


@pytest.mark.parametrize("flags", [(), ("--batch-size", "2")])
def test_a_verbose_cleanup_prints_the_deleted_rows(holdfast, mapped, flags):
    result = holdfast("state-store", "cleanup-task-store", "--verbose", *flags)

    assert result.out.splitlines() == [*ROWS, "3 rows deleted."]


def test_the_batch_size_comes_from_the_settings_unless_given(
    holdfast, mapped, monkeypatch, project
):
    (project / "holdfast.toml").write_text("[state_store]\nstate_cleanup_batch_size = 2")
    limits = []
    execute = mapped.execute

    def noted(command):
        if isinstance(command, DeleteExpired):
            limits.append(command.limit)
        return execute(command)

    monkeypatch.setattr(mapped, "execute", noted)
    holdfast("state-store", "cleanup-task-store")
    holdfast("state-store", "cleanup-task-store", "--batch-size", "7")

    assert set(limits) == {2, 7}


@pytest.mark.parametrize("flags", [("--dry-run",), ("--verbose",)])
def test_rows_as_json_are_one_document(holdfast, mapped, flags):
    result = holdfast("state-store", "cleanup-task-store", "--json", *flags)

    document = json.loads(result.out)
    assert document["count"] == 3
    assert document["dry_run"] is ("--dry-run" in flags)
    assert document["rows"][0] == {
        "dag_id": "etl",
        "run_id": "r1",
        "task_id": "load",
        "map_index": 0,
        "key": "old key",
    }


def test_a_cleanup_as_json_has_the_count(holdfast, mapped):
    assert json.loads(holdfast("state-store", "clean", "--json").out)["count"] == 3


def test_no_rows_as_json_are_an_empty_document(holdfast):
    document = json.loads(holdfast("state-store", "clean", "--dry-run", "--json").out)

    assert (document["rows"], document["count"]) == ([], 0)


def test_entries_without_expiry_are_kept(holdfast, mapped):
    scope = TaskScope("etl", "r1", "load", 0)
    mapped.execute(Set(scope, "kept", "1", ApiWriter("ann")))

    holdfast("state-store", "clean")

    assert mapped.execute(List(scope)).total == 2


def test_inactive_clients_are_forgotten_except_in_a_dry_run(holdfast, mapped, monkeypatch):
    forgotten = []
    execute = mapped.execute

    def noted(command):
        if isinstance(command, ForgetRequests):
            forgotten.append(command)
        return execute(command)

    monkeypatch.setattr(mapped, "execute", noted)

    holdfast("state-store", "clean", "--dry-run")
    assert forgotten == []
    holdfast("state-store", "clean")
    assert len(forgotten) == 1


@pytest.mark.parametrize(
    ("cleans_up", "said"),
    [
        (True, "Ran the cleanup of the backend custom.Backend.\n"),
        (False, "Skipped: the backend custom.Backend has no cleanup.\n"),
    ],
)
def test_a_custom_backend_cleans_up_by_itself(custom, holdfast, cleans_up, said):
    store = custom(cleans_up)

    assert holdfast("state-store", "cleanup-task-store") == (0, said, "")
    assert store.calls == 1


@pytest.mark.parametrize(
    ("cleans_up", "said"),
    [
        (
            True,
            (
                "No preview: the backend custom.Backend has its own cleanup, which cannot be "
                "previewed.\n"
            ),
        ),
        (False, "Skipped: the backend custom.Backend has no cleanup.\n"),
    ],
)
def test_a_dry_run_never_calls_a_custom_backend(custom, holdfast, cleans_up, said):
    store = custom(cleans_up)

    assert holdfast("state-store", "cleanup-task-store", "--dry-run") == (0, said, "")
    assert store.calls == 0


def test_verbose_has_a_short_spelling(holdfast, mapped):
    result = holdfast("state-store", "clean", "-v")

    assert result.out.splitlines() == [*ROWS, "3 rows deleted."]


@pytest.fixture
def orphans(store):
    """Declare two assets that no DAG declares any more, and one that is declared."""
    store.execute(DeclareDagAssets("etl", (("a", "a"), ("b", "b"), ("kept", "kept"))))
    for name in ("a", "b", "kept"):
        store.execute(Set(AssetScope(name=name), "k", "1", ApiWriter("ann")))
    store.execute(DeclareDagAssets("etl", (("kept", "kept"),)))
    return store


def test_the_state_of_orphans_is_deleted_after_their_grace_period(holdfast, orphans, monkeypatch):
    assert holdfast("state-store", "cleanup-asset-store") == (0, "Nothing to delete.\n", "")
    monkeypatch.setenv("HOLDFAST__STATE_STORE__ORPHAN_GRACE_DAYS", "0")

    dry = holdfast("state-store", "cleanup-asset-store", "--dry-run")
    left = [found.scope.name for found in orphans.execute(List(AssetFilter())).found]
    done = holdfast("state-store", "cleanup-asset-store")
    again = holdfast("state-store", "cleanup-asset-store", "--dry-run")

    assert dry == (0, "2 assets would lose all state:\na\nb\n", "")
    assert left == ["a", "b", "kept"]
    assert done == (0, "2 assets lost all state.\n", "")
    assert again == (0, "Nothing to delete.\n", "")
    [found] = orphans.execute(List(AssetFilter())).found
    assert found.scope.name == "kept"


def test_the_sweep_of_orphans_is_reported_as_json(holdfast, orphans, monkeypatch):
    monkeypatch.setenv("HOLDFAST__STATE_STORE__ORPHAN_GRACE_DAYS", "0")

    dry = json.loads(holdfast("state-store", "cleanup-asset-store", "--dry-run", "--json").out)
    done = json.loads(holdfast("state-store", "cleanup-asset-store", "--json").out)

    assert (dry["dry_run"], dry["count"], dry["assets"]) == (True, 2, ["a", "b"])
    assert (done["dry_run"], done["count"]) == (False, 2)


def test_a_custom_backend_is_named_in_json(custom, holdfast):
    custom(True)

    assert json.loads(holdfast("state-store", "clean", "--json").out) == {
        "backend": "custom.Backend",
        "dry_run": False,
        "called": True,
    }
