"""Staged writes: applied with the attempt's success, all or none."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from holdfast import commands as c
from holdfast.commands import (
    Advance,
    DeclareAsset,
    DeclareDagAssets,
    FinishAttempt,
    Get,
    GetEntry,
    History,
    List,
    Set,
    StartAttempt,
)
from holdfast.errors import AssetInactive, InvalidType, VersionConflict
from holdfast.model.entry import TaskWriter
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.testing.client import Client
from holdfast.testing.clock import Clock
from holdfast.testing.conformance.fixtures import (
    ANN,
    CUSTOMERS,
    CUSTOMERS_URI,
    ORDERS_URI,
    StoreFixtures,
)


class Staging(StoreFixtures):
    def test_the_attempt_reads_its_own_staged_value(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Set(asset, "k", '"old"', ANN))

        do(Set(asset, "k", '"new"', attempt, on_success=True))

        assert do(Get(asset, "k", attempt)) == '"new"'

    def test_the_attempt_lists_its_own_staged_values(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Set(asset, "b", '"old"', ANN))

        do(Set(asset, "b", '"new"', attempt, on_success=True))
        do(Set(asset, "a", '"new"', attempt, on_success=True))

        page = do(List(asset, reader=attempt))
        assert [(each.entry.key, each.entry.value) for each in page.found] == [
            ("a", '"new"'),
            ("b", '"new"'),
        ]
        assert page.total == 2

    def test_a_list_with_staged_values_is_filtered_like_any_other(
        self, do: Client, asset: AssetScope, attempt: TaskWriter, clock: Clock
    ) -> None:
        version = do(Set(asset, "b", '"old"', ANN))
        do(Set(asset, "a", "1", attempt, on_success=True))
        clock.forward(timedelta(hours=1))
        do(Set(asset, "b", "2", attempt, on_success=True))

        (found,) = do(List(asset, updated_since=clock(), reader=attempt)).found

        assert (found.entry.key, found.entry.version) == ("b", version)
        assert do(List(asset, prefix="a", reader=attempt)).total == 1
        assert do(List(asset, limit=1, offset=1, reader=attempt)).found == (found,)
        assert do(List(asset, expiring_before=clock(), reader=attempt)).total == 0

    def test_staged_values_are_listed_with_their_asset(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        info = do(DeclareAsset("orders", ORDERS_URI))
        do(Set(asset, "k", "1", attempt, on_success=True))

        (by_name,) = do(List(asset, reader=attempt)).found
        (by_filter,) = do(List(c.AssetFilter(), reader=attempt)).found

        assert by_name.scope == by_filter.scope == info.scope

    def test_nobody_else_sees_a_staged_value(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        neighbour = TaskScope("sales", "tuesday", "load")
        do(c.RegisterTask(neighbour))
        other = TaskWriter(neighbour, do(StartAttempt(neighbour)))
        do(Set(asset, "k", '"old"', ANN))

        do(Set(asset, "k", '"new"', attempt, on_success=True))
        do(Set(asset, "absent", '"new"', attempt, on_success=True))

        assert do(Get(asset, "k")) == '"old"'
        assert do(Get(asset, "k", other)) == '"old"'
        assert do(Get(asset, "absent", other)) is None

    def test_a_staged_value_is_not_listed_and_has_no_history(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Set(asset, "k", "1", attempt, on_success=True))

        assert do(List(asset)).total == 0
        assert do(History(asset, "k")) == ()

    def test_a_staged_value_shows_when_it_was_staged_and_over_which_version(
        self, do: Client, asset: AssetScope, attempt: TaskWriter, clock: Clock
    ) -> None:
        version = do(Set(asset, "k", '"old"', ANN))
        staged_at = clock()
        do(Set(asset, "k", '"new"', attempt, on_success=True))
        clock.forward(timedelta(hours=1))

        entry = do(GetEntry(asset, "k", attempt))

        assert entry is not None
        assert (entry.value, entry.staged) == ('"new"', True)
        assert (entry.updated_at, entry.version) == (staged_at, version)

    def test_success_applies_staged_writes(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Set(asset, "k", '"new"', attempt, on_success=True))

        do(FinishAttempt(attempt, succeeded=True))

        assert do(Get(asset, "k")) == '"new"'

    def test_an_applied_staged_write_is_a_new_version(
        self, do: Client, asset: AssetScope, attempt: TaskWriter, clock: Clock
    ) -> None:
        before = do(Set(asset, "k", '"old"', ANN))
        do(Set(asset, "k", '"new"', attempt, on_success=True))
        clock.forward(timedelta(hours=1))

        do(FinishAttempt(attempt, succeeded=True))

        entry = do(GetEntry(asset, "k"))
        assert entry is not None
        assert (entry.value, entry.staged) == ('"new"', False)
        assert entry.version > before
        assert entry.updated_at == clock()
        assert isinstance(entry.writer, TaskWriter)
        assert entry.writer.scope == attempt.scope
        assert [step.value for step in do(History(asset, "k"))] == ['"new"', '"old"']

    def test_success_applies_staged_writes_to_several_assets(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(DeclareAsset("customers", CUSTOMERS_URI))
        do(Set(asset, "a", "1", attempt, on_success=True))
        do(Set(asset, "b", "2", attempt, on_success=True))
        do(Set(CUSTOMERS, "a", "3", attempt, on_success=True))

        do(FinishAttempt(attempt, succeeded=True))

        assert do(Get(asset, "a")) == "1"
        assert do(Get(asset, "b")) == "2"
        assert do(Get(CUSTOMERS, "a")) == "3"

    def test_the_value_staged_last_is_the_one_applied(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Set(asset, "k", "1", attempt, on_success=True))
        do(Set(AssetScope(uri=ORDERS_URI), "k", "2", attempt, on_success=True))

        do(FinishAttempt(attempt, succeeded=True))

        assert do(Get(asset, "k")) == "2"

    def test_success_applies_staged_writes_over_concurrent_writes(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Set(asset, "k", '"staged"', attempt, on_success=True))
        do(Set(asset, "k", '"meanwhile"', ANN))

        do(FinishAttempt(attempt, succeeded=True))

        assert do(Get(asset, "k")) == '"staged"'

    def test_failure_drops_staged_writes(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Set(asset, "k", "1", attempt, on_success=True))

        do(FinishAttempt(attempt, succeeded=False))

        assert do(Get(asset, "k")) is None
        assert do(Get(asset, "k", attempt)) is None

    def test_a_new_attempt_drops_the_staged_writes_of_the_previous_one(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Set(asset, "k", "1", attempt, on_success=True))

        retry = TaskWriter(attempt.scope, do(StartAttempt(attempt.scope)))

        assert do(Get(asset, "k", retry)) is None
        assert do(Get(asset, "k", attempt)) is None
        do(FinishAttempt(retry, succeeded=True))
        assert do(Get(asset, "k")) is None

    def test_writes_that_were_not_staged_outlive_a_failure(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Set(asset, "k", "1", attempt))

        do(FinishAttempt(attempt, succeeded=False))

        assert do(Get(asset, "k")) == "1"

    def test_map_indices_stage_separately(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        mapped = TaskScope(attempt.scope.dag_id, attempt.scope.run_id, attempt.scope.task_id, 0)
        do(c.RegisterTask(mapped))
        other = TaskWriter(mapped, do(StartAttempt(mapped)))
        do(Set(asset, "k", "1", attempt, on_success=True))
        do(Set(asset, "k", "2", other, on_success=True))

        do(FinishAttempt(attempt, succeeded=True))

        assert do(Get(asset, "k")) == "1"
        assert do(Get(asset, "k", other)) == "2"

    def test_a_staged_if_version_that_still_holds_is_applied(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        version = do(Set(asset, "k", "1", ANN))
        do(Set(asset, "k", "2", attempt, if_version=version, on_success=True))
        do(Set(asset, "new", "2", attempt, if_version=0, on_success=True))

        do(FinishAttempt(attempt, succeeded=True))

        assert do(Get(asset, "k")) == "2"
        assert do(Get(asset, "new")) == "2"

    def test_a_staged_if_version_is_checked_only_when_it_takes_effect(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Set(asset, "k", "1", ANN))
        do(Set(asset, "k", "2", attempt, if_version=0, on_success=True))
        do(c.Delete(asset, "k", ANN))

        do(FinishAttempt(attempt, succeeded=True))

        assert do(Get(asset, "k")) == "2"

    def test_a_staged_conflict_applies_nothing_and_leaves_the_attempt_live(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        version = do(Set(asset, "k", "1", ANN))
        do(Set(attempt.scope, "kept", "1", attempt))
        do(Set(asset, "a", "2", attempt, on_success=True))
        do(Set(asset, "k", "2", attempt, if_version=version, on_success=True))
        do(Set(asset, "z", "2", attempt, on_success=True))
        do(Set(asset, "k", '"meanwhile"', ANN))

        with pytest.raises(VersionConflict, match="`k`"):
            do(FinishAttempt(attempt, succeeded=True, clear=True))

        found = [(each.entry.key, each.entry.value) for each in do(List(asset)).found]
        assert found == [("k", '"meanwhile"')]
        assert do(Get(attempt.scope, "kept")) == "1"
        do(Set(attempt.scope, "still", "1", attempt))
        do(FinishAttempt(attempt, succeeded=False))
        assert do(List(asset)).total == 1

    def test_a_staged_advance_is_read_by_its_attempt_only(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Set(asset, "watermark", "5", ANN))

        assert do(Advance(asset, "watermark", "7", attempt, on_success=True)) == "7"

        assert do(Get(asset, "watermark", attempt)) == "7"
        assert do(Get(asset, "watermark")) == "5"

    def test_a_staged_advance_is_applied_with_success(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Set(asset, "watermark", "5", ANN))
        do(Advance(asset, "watermark", "7", attempt, on_success=True))
        do(Advance(asset, "first", "1", attempt, on_success=True))

        do(FinishAttempt(attempt, succeeded=True))

        assert do(Get(asset, "watermark")) == "7"
        assert do(Get(asset, "first")) == "1"

    def test_a_staged_advance_is_dropped_with_failure(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Set(asset, "watermark", "5", ANN))
        do(Advance(asset, "watermark", "7", attempt, on_success=True))

        do(FinishAttempt(attempt, succeeded=False))

        assert do(Get(asset, "watermark")) == "5"

    def test_staged_advances_never_move_back(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Advance(asset, "watermark", "7", attempt, on_success=True))

        assert do(Advance(asset, "watermark", "3", attempt, on_success=True)) == "7"

        do(FinishAttempt(attempt, succeeded=True))
        assert do(Get(asset, "watermark")) == "7"

    def test_a_staged_advance_does_not_undo_concurrent_advances(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Advance(asset, "watermark", "7", attempt, on_success=True))
        do(Advance(asset, "watermark", "9", ANN))
        before = do(GetEntry(asset, "watermark"))

        assert do(Get(asset, "watermark", attempt)) == "9"
        do(FinishAttempt(attempt, succeeded=True))

        assert do(GetEntry(asset, "watermark")) == before

    def test_a_staged_advance_returns_the_value_it_would_leave(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Set(asset, "watermark", "9", ANN))

        assert do(Advance(asset, "watermark", "7", attempt, on_success=True)) == "9"

    def test_a_staged_advance_does_not_restore_a_value_rewound_concurrently(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Set(asset, "watermark", "9", ANN))
        do(Advance(asset, "watermark", "7", attempt, on_success=True))
        do(Set(asset, "watermark", "3", ANN))

        do(FinishAttempt(attempt, succeeded=True))

        assert do(Get(asset, "watermark")) == "7"

    def test_a_staged_advance_starts_from_a_staged_set(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Set(asset, "watermark", "9", ANN))
        do(Set(asset, "watermark", "3", attempt, on_success=True))

        assert do(Advance(asset, "watermark", "5", attempt, on_success=True)) == "5"

        do(FinishAttempt(attempt, succeeded=True))
        assert do(Get(asset, "watermark")) == "5"

    def test_a_staged_set_replaces_a_staged_advance(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Set(asset, "watermark", "9", ANN))
        do(Advance(asset, "watermark", "12", attempt, on_success=True))

        do(Set(asset, "watermark", "5", attempt, on_success=True))

        do(FinishAttempt(attempt, succeeded=True))
        assert do(Get(asset, "watermark")) == "5"

    def test_a_staged_advance_of_another_type_is_refused(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Set(asset, "watermark", "5", ANN))
        do(Set(asset, "cursor", '"a"', attempt, on_success=True))

        with pytest.raises(InvalidType, match="watermark"):
            do(Advance(asset, "watermark", '"7"', attempt, on_success=True))
        with pytest.raises(InvalidType, match="cursor"):
            do(Advance(asset, "cursor", "7", attempt, on_success=True))

        do(FinishAttempt(attempt, succeeded=True))
        assert do(Get(asset, "watermark")) == "5"
        assert do(Get(asset, "cursor")) == '"a"'

    def test_a_staged_advance_over_a_concurrently_written_other_type_applies_nothing(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Set(asset, "a", "1", attempt, on_success=True))
        do(Advance(asset, "watermark", "7", attempt, on_success=True))
        do(Set(asset, "watermark", '"text"', ANN))

        with pytest.raises(InvalidType, match="watermark"):
            do(FinishAttempt(attempt, succeeded=True))

        assert do(Get(asset, "a")) is None
        assert do(Get(asset, "watermark")) == '"text"'
        do(FinishAttempt(attempt, succeeded=False))

    def test_a_staged_value_can_be_read_whatever_was_written_concurrently(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(Advance(asset, "watermark", "7", attempt, on_success=True))
        do(Set(asset, "watermark", '"text"', ANN))

        assert do(Get(asset, "watermark", attempt)) == "7"
        assert do(List(asset, reader=attempt)).found[0].entry.value == "7"

    def test_staged_writes_to_an_asset_that_became_inactive_are_not_applied(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(DeclareDagAssets("sales", (("customers", CUSTOMERS_URI),)))
        do(Set(asset, "k", "1", attempt, on_success=True))
        do(Set(CUSTOMERS, "k", "1", attempt, on_success=True))
        do(DeclareDagAssets("sales", ()))

        with pytest.raises(AssetInactive, match="customers"):
            do(FinishAttempt(attempt, succeeded=True))

        assert do(Get(asset, "k")) is None
        do(FinishAttempt(attempt, succeeded=False))

    def test_deleting_an_asset_drops_its_staged_writes(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(DeclareAsset("customers", CUSTOMERS_URI))
        do(Set(asset, "k", "1", attempt, on_success=True))
        do(Set(CUSTOMERS, "k", "1", attempt, on_success=True))
        do(c.DeleteAsset(CUSTOMERS))
        do(DeclareAsset("customers", CUSTOMERS_URI))

        do(FinishAttempt(attempt, succeeded=True))

        assert do(Get(asset, "k")) == "1"
        assert do(Get(CUSTOMERS, "k")) is None

    def test_concurrent_successes_all_apply_their_staged_writes(
        self, do: Client, asset: AssetScope
    ) -> None:
        writers = []
        for n in range(6):
            scope = TaskScope("sales", "monday", "load", n)
            do(c.RegisterTask(scope))
            writers.append(TaskWriter(scope, do(StartAttempt(scope))))
            do(Advance(asset, "watermark", str(n), writers[n], on_success=True))
            do(Set(asset, f"part-{n}", "1", writers[n], on_success=True))

        outcomes = do.together([FinishAttempt(writer, succeeded=True) for writer in writers])

        assert outcomes == [None] * 6
        assert do(Get(asset, "watermark")) == "5"
        assert do(List(asset, prefix="part-")).total == 6

    def test_the_accessor_stages_and_reads_staged_values(
        self, do: Client, open_asset_store: Callable[..., Any], attempt: TaskWriter
    ) -> None:
        mine, other = open_asset_store(attempt), open_asset_store()

        mine.set("k", [1], on_success=True)
        mine.advance("watermark", 7, on_success=True)

        assert mine.get("k") == [1]
        assert mine.items() == [("k", [1]), ("watermark", 7)]
        assert other.items() == []
        do(FinishAttempt(attempt, succeeded=True))
        assert other.items() == [("k", [1]), ("watermark", 7)]
