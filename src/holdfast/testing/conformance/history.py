"""The history of an asset's entry, and rewinds."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast import commands as c
from holdfast.commands import Clear, Delete, Get, History, Rewind, Set, SetMany, ToVersion
from holdfast.errors import HistoryGone, VersionConflict
from holdfast.model.entry import TaskWriter, WatcherWriter, Writer
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.testing.client import Client
from holdfast.testing.clock import Clock
from holdfast.testing.conformance.fixtures import ANN, CUSTOMERS, CUSTOMERS_URI, StoreFixtures

MONDAY = TaskWriter(TaskScope("sales", "monday", "load"))
TUESDAY = TaskWriter(TaskScope("sales", "tuesday", "load", 3))

DAY = timedelta(days=1)


class Histories(StoreFixtures):
    def test_a_key_that_was_never_written_has_no_history(
        self, do: Client, asset: AssetScope
    ) -> None:
        assert do(History(asset, "k")) == ()

    def test_history_has_the_newest_version_first(self, do: Client, asset: AssetScope) -> None:
        versions = [do(Set(asset, "k", str(n), ANN)) for n in range(3)]

        steps = do(History(asset, "k"))

        assert [step.value for step in steps] == ["2", "1", "0"]
        assert [step.version for step in steps] == versions[::-1]

    def test_history_has_time_and_writer_of_each_version(
        self, do: Client, asset: AssetScope, clock: Clock
    ) -> None:
        start = clock()
        writers: list[Writer] = [MONDAY, WatcherWriter(), TUESDAY, ANN]
        for writer in writers:
            do(Set(asset, "k", "1", writer))
            clock.forward(DAY)

        steps = do(History(asset, "k"))

        assert [step.writer for step in steps] == writers[::-1]
        assert [step.updated_at for step in steps] == [start + n * DAY for n in (3, 2, 1, 0)]

    def test_each_version_names_the_previous_one(self, do: Client, asset: AssetScope) -> None:
        do(Set(asset, "other", "1", ANN))
        do(Set(asset, "k", "1", ANN))
        do(Set(asset, "other", "2", ANN))
        do(Set(asset, "k", "2", ANN))
        do(Delete(asset, "k", ANN))

        steps = do(History(asset, "k"))

        assert [step.previous for step in steps] == [steps[1].version, steps[2].version, 0]

    def test_history_includes_deletions(self, do: Client, asset: AssetScope) -> None:
        do(Set(asset, "k", "1", ANN))
        do(Delete(asset, "k", MONDAY))
        do(Set(asset, "k", "2", ANN))

        steps = do(History(asset, "k"))

        assert [step.value for step in steps] == ["2", None, "1"]
        assert steps[1].writer == MONDAY

    def test_history_includes_entries_removed_by_clear(self, do: Client, asset: AssetScope) -> None:
        do(SetMany(asset, (("a", "1"), ("b", "2")), ANN))
        do(Clear(asset, MONDAY))

        assert [step.value for step in do(History(asset, "a"))] == [None, "1"]
        assert [step.writer for step in do(History(asset, "b"))] == [MONDAY, ANN]

    def test_deleting_an_absent_key_adds_no_version(self, do: Client, asset: AssetScope) -> None:
        do(Delete(asset, "k", ANN))
        do(Clear(asset, ANN))

        assert do(History(asset, "k")) == ()

    def test_a_refused_write_adds_no_version(self, do: Client, asset: AssetScope) -> None:
        do(Set(asset, "k", "1", ANN))

        with pytest.raises(VersionConflict):
            do(Set(asset, "k", "2", ANN, if_version=0))

        assert len(do(History(asset, "k"))) == 1

    def test_keys_and_assets_have_histories_of_their_own(
        self, do: Client, asset: AssetScope
    ) -> None:
        do(c.DeclareAsset("customers", CUSTOMERS_URI))
        do(Set(asset, "a", "1", ANN))
        do(Set(asset, "b", "2", ANN))
        do(Set(CUSTOMERS, "a", "3", ANN))

        assert [step.value for step in do(History(asset, "a"))] == ["1"]
        assert [step.value for step in do(History(CUSTOMERS, "a"))] == ["3"]

    def test_history_keeps_as_many_versions_as_its_limit_says(
        self, do: Client, asset: AssetScope
    ) -> None:
        do(Set(asset, "other", '"kept"', ANN))
        versions = [do(Set(asset, "k", str(n), ANN)) for n in range(self.history_limit + 2)]

        steps = do(History(asset, "k"))

        assert [step.version for step in steps] == versions[:1:-1]
        assert steps[-1].previous == versions[1]
        assert len(do(History(asset, "other"))) == 1

    def test_the_accessor_decodes_values(self, asset_store: Any) -> None:
        asset_store.set("k", {"a": 1})
        asset_store.delete("k")

        assert [step.value for step in asset_store.history("k")] == [None, {"a": 1}]


class Rewinds(StoreFixtures):
    def test_rewind_restores_a_version_as_a_new_one(self, do: Client, asset: AssetScope) -> None:
        first = do(Set(asset, "k", "1", MONDAY))
        second = do(Set(asset, "k", "2", TUESDAY))

        step = do(Rewind(asset, "k", ToVersion(first), ANN))

        newest = do(History(asset, "k"))[0]
        assert step is not None
        assert (step.version, step.value, step.writer) == (first, "1", MONDAY)
        assert do(Get(asset, "k")) == "1"
        assert newest.version > second
        assert newest.writer == ANN
        assert newest.previous == second

    def test_rewind_goes_to_before_a_run_first_wrote(self, do: Client, asset: AssetScope) -> None:
        do(Set(asset, "k", "1", MONDAY))
        do(Set(asset, "k", "2", TUESDAY))
        do(Set(asset, "k", "3", ANN))
        do(Set(asset, "k", "4", TUESDAY))

        do(Rewind(asset, "k", c.BeforeRun("tuesday"), ANN))

        assert do(Get(asset, "k")) == "1"

    def test_rewind_to_before_the_first_run_makes_the_entry_absent(
        self, do: Client, asset: AssetScope
    ) -> None:
        do(Set(asset, "k", "1", MONDAY))
        do(Set(asset, "k", "2", TUESDAY))

        step = do(Rewind(asset, "k", c.BeforeRun("monday"), ANN))

        assert step is None
        assert do(Get(asset, "k")) is None
        assert do(History(asset, "k"))[0].value is None

    def test_rewind_goes_to_a_time(self, do: Client, asset: AssetScope, clock: Clock) -> None:
        start = clock()
        for n in range(3):
            do(Set(asset, "k", str(n), ANN))
            clock.forward(DAY)

        do(Rewind(asset, "k", c.AtTime(start + DAY + DAY / 2), ANN))

        assert do(Get(asset, "k")) == "1"

    def test_rewind_to_the_moment_of_a_write_includes_it(
        self, do: Client, asset: AssetScope, clock: Clock
    ) -> None:
        start = clock()
        for n in range(3):
            do(Set(asset, "k", str(n), ANN))
            clock.forward(DAY)

        do(Rewind(asset, "k", c.AtTime(start + DAY), ANN))

        assert do(Get(asset, "k")) == "1"

    def test_rewind_to_a_time_before_the_first_write_makes_the_entry_absent(
        self, do: Client, asset: AssetScope, clock: Clock
    ) -> None:
        do(Set(asset, "k", "1", ANN))

        step = do(Rewind(asset, "k", c.AtTime(clock() - DAY), ANN))

        assert step is None
        assert do(Get(asset, "k")) is None

    def test_rewind_to_a_deletion_makes_the_entry_absent(
        self, do: Client, asset: AssetScope
    ) -> None:
        do(Set(asset, "k", "1", ANN))
        do(Delete(asset, "k", ANN))
        deletion = do(History(asset, "k"))[0]
        do(Set(asset, "k", "2", ANN))

        step = do(Rewind(asset, "k", ToVersion(deletion.version), ANN))

        assert step == deletion
        assert do(Get(asset, "k")) is None

    def test_rewind_restores_a_deleted_entry(self, do: Client, asset: AssetScope) -> None:
        version = do(Set(asset, "k", "1", ANN))
        do(Delete(asset, "k", ANN))

        do(Rewind(asset, "k", ToVersion(version), ANN))

        assert do(Get(asset, "k")) == "1"

    def test_a_rewind_can_be_rewound(self, do: Client, asset: AssetScope) -> None:
        first = do(Set(asset, "k", "1", ANN))
        second = do(Set(asset, "k", "2", ANN))
        do(Rewind(asset, "k", ToVersion(first), ANN))

        do(Rewind(asset, "k", ToVersion(second), ANN))

        assert do(Get(asset, "k")) == "2"

    def test_rewind_of_one_key_leaves_the_others(self, do: Client, asset: AssetScope) -> None:
        first = do(SetMany(asset, (("a", "1"), ("b", "1")), ANN))
        do(SetMany(asset, (("a", "2"), ("b", "2")), ANN))

        do(Rewind(asset, "a", ToVersion(first), ANN))

        assert do(Get(asset, "a")) == "1"
        assert do(Get(asset, "b")) == "2"

    def test_a_dry_run_returns_the_restored_value_and_writes_nothing(
        self, do: Client, asset: AssetScope
    ) -> None:
        first = do(Set(asset, "k", "1", ANN))
        do(Set(asset, "k", "2", ANN))
        before = do(History(asset, "k"))

        step = do(Rewind(asset, "k", ToVersion(first), ANN, dry_run=True))

        assert step == before[1]
        assert do(Get(asset, "k")) == "2"
        assert do(History(asset, "k")) == before

    def test_rewind_of_a_key_without_history_is_an_error(
        self, do: Client, asset: AssetScope
    ) -> None:
        with pytest.raises(HistoryGone, match="`k`"):
            do(Rewind(asset, "k", ToVersion(1), ANN))

    def test_rewind_to_a_version_of_another_key_is_an_error(
        self, do: Client, asset: AssetScope
    ) -> None:
        do(Set(asset, "k", "1", ANN))
        version = do(Set(asset, "other", "2", ANN))

        with pytest.raises(HistoryGone, match=str(version)):
            do(Rewind(asset, "k", ToVersion(version), ANN))

        assert do(Get(asset, "k")) == "1"

    def test_rewind_to_before_a_run_that_never_wrote_is_an_error(
        self, do: Client, asset: AssetScope
    ) -> None:
        do(Set(asset, "k", "1", MONDAY))

        with pytest.raises(HistoryGone, match="sunday"):
            do(Rewind(asset, "k", c.BeforeRun("sunday"), ANN))

        assert do(Get(asset, "k")) == "1"

    def test_rewind_further_than_history_reaches_is_an_error_not_an_absence(
        self, do: Client, asset: AssetScope, clock: Clock
    ) -> None:
        start = clock()
        first = do(Set(asset, "k", '"first"', MONDAY))
        clock.forward(DAY)
        for n in range(self.history_limit):
            do(Set(asset, "k", str(n), TUESDAY))
        standing = do(Get(asset, "k"))

        for target in (ToVersion(first), c.BeforeRun("tuesday"), c.AtTime(start)):
            with pytest.raises(HistoryGone):
                do(Rewind(asset, "k", target, ANN))

        assert do(Get(asset, "k")) == standing

    def test_the_accessor_rewinds(self, asset_store: Any, clock: Clock) -> None:
        asset_store.set("k", "one")
        first = asset_store.entry("k").version
        clock.forward(DAY)
        asset_store.set("k", "two")

        assert asset_store.rewind("k", version=first, dry_run=True).value == "one"
        assert asset_store.get("k") == "two"
        assert asset_store.rewind("k", at=clock() - DAY / 2).value == "one"
        assert asset_store.get("k") == "one"
