"""Bulk loads: atomicity, and the rules of every write."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from holdfast.commands import (
    AddToLoad,
    DeclareDagAssets,
    Delete,
    DeleteAsset,
    DropLoad,
    FinishLoad,
    Get,
    GetEntry,
    History,
    List,
    ListTasks,
    ScopeEntries,
    Set,
    StartAttempt,
    StartLoad,
    TaskFilter,
)
from holdfast.errors import (
    AssetInactive,
    Conflict,
    HoldfastError,
    InvalidInput,
    NotFound,
    StaleAttempt,
    UnknownAsset,
)
from holdfast.model.entry import TaskWriter, Writer
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.value import encode
from holdfast.testing.client import Client
from holdfast.testing.clock import Clock
from holdfast.testing.conformance.fixtures import ANN, CUSTOMERS, StoreFixtures

LOAD = "load-1"
NEW = TaskScope("imported", "first", "load", 3)
LATER = datetime(2999, 1, 1, 12, 30, tzinfo=UTC)


def scope_entries(scope: StoreScope, *entries: tuple[str, str]) -> ScopeEntries:
    return ScopeEntries(scope, tuple((key, value, None) for key, value in entries))


def add(do: Client, *added: ScopeEntries, part: int = 0, writer: Writer = ANN) -> None:
    """Start a load with these entries in one part."""
    do(StartLoad(LOAD, writer))
    do(AddToLoad(LOAD, part, 0, added, writer))


def finish(do: Client, *parts: tuple[int, int], writer: Writer = ANN) -> int:
    return do(FinishLoad(LOAD, parts, writer))


class Loads(StoreFixtures):
    def test_the_entries_of_a_load_are_readable_once_it_is_finished(
        self, do: Client, task: TaskScope, asset: AssetScope
    ) -> None:
        add(do, scope_entries(task, ("a", "1"), ("b", '"x"')), scope_entries(asset, ("c", "[1,2]")))

        assert finish(do, (0, 3)) == 3

        assert do(Get(task, "a")) == "1"
        assert do(Get(task, "b")) == '"x"'
        assert do(Get(asset, "c")) == "[1,2]"

    def test_the_entries_of_an_unfinished_load_are_not_readable(
        self, do: Client, task: TaskScope, asset: AssetScope
    ) -> None:
        add(
            do,
            scope_entries(task, ("a", "1")),
            scope_entries(NEW, ("a", "1")),
            scope_entries(asset, ("a", "1")),
        )

        assert do(Get(task, "a")) is None
        assert do(Get(asset, "a")) is None
        assert do(ListTasks(NEW.dag_id, NEW.run_id)) == ()

    def test_a_part_can_be_sent_in_several_commands(self, do: Client, task: TaskScope) -> None:
        add(do, scope_entries(task, ("a", "1"), ("b", "2")))
        do(AddToLoad(LOAD, 0, 2, (scope_entries(task, ("c", "3")),), ANN))

        assert finish(do, (0, 3)) == 3
        assert do(List(task)).total == 3

    def test_entries_out_of_order_within_their_part_are_refused(
        self, do: Client, task: TaskScope
    ) -> None:
        add(do, scope_entries(task, ("a", "1")))

        for first in (0, 2, 2**62):
            with pytest.raises(Conflict, match="part 0 of load load-1 has 1 entries"):
                do(AddToLoad(LOAD, 0, first, (scope_entries(task, ("a", "1"), ("b", "1")),), ANN))
        for number in (-1, 2**63 - 1):
            with pytest.raises(InvalidInput, match="from 0 to"):
                do(AddToLoad(LOAD, 0, number, (scope_entries(task, ("b", "1")),), ANN))

        assert finish(do, (0, 1)) == 1
        assert do(Set(task, "b", "2", ANN)) > 0

    def test_only_the_parts_named_on_finish_take_effect(self, do: Client, task: TaskScope) -> None:
        add(do, scope_entries(task, ("a", "1")), part=7)
        add(do, scope_entries(task, ("a", "2")), part=8)

        assert finish(do, (8, 1), (9, 0)) == 1

        assert do(Get(task, "a")) == "2"

    def test_an_unknown_task_instance_is_registered(self, do: Client, task: TaskScope) -> None:
        other = TaskScope(NEW.dag_id, NEW.run_id, NEW.task_id, 4)
        add(
            do,
            scope_entries(NEW, ("a", "1")),
            scope_entries(other, ("a", "2")),
            scope_entries(task, ("a", "3")),
        )

        finish(do, (0, 3))

        assert do(ListTasks(NEW.dag_id, NEW.run_id)) == (NEW, other)
        assert do(List(TaskFilter(dag_id=NEW.dag_id))).total == 2

    def test_values_are_stored_as_by_a_set(self, do: Client, task: TaskScope) -> None:
        add(
            do,
            scope_entries(
                task, ("a", ' { "é" : [ 1, 2.50 ] } '), ("b", '{"__holdfast_ref__": "x"}')
            ),
        )

        finish(do, (0, 2))

        assert do(Get(task, "a")) == '{"é":[1,2.5]}'
        assert do(Get(task, "b")) == '{"__holdfast_value__":{"__holdfast_ref__":"x"}}'

    def test_backslashes_and_null_markers_are_stored_verbatim(
        self, do: Client, task: TaskScope
    ) -> None:
        texts = ("\\N", "\\.", "NULL", "None", "C:\\new", "a'b\"c", "é…😀")
        values = {text: encode(f"{text}\t\r\n") for text in texts}
        add(do, scope_entries(task, *values.items()))

        finish(do, (0, len(texts)))

        found = {each.entry.key: each.entry.value for each in do(List(task)).found}
        assert found == values

    def test_an_entry_has_its_expiry_and_its_writer(self, do: Client, task: TaskScope) -> None:
        add(do, ScopeEntries(task, (("a", "1", LATER), ("b", "1", None))))

        finish(do, (0, 2))

        entry, lasting = do(GetEntry(task, "a")), do(GetEntry(task, "b"))
        assert entry is not None
        assert lasting is not None
        assert (entry.expires_at, lasting.expires_at) == (LATER, None)
        assert entry.writer == ANN

    def test_a_load_overwrites_an_entry_with_a_new_version(
        self, do: Client, task: TaskScope
    ) -> None:
        do(Set(task, "a", "1", ANN))
        gone = do(Set(task, "b", "1", ANN))
        do(Delete(task, "b", ANN))
        add(do, scope_entries(task, ("a", "2"), ("b", "2")))

        finish(do, (0, 2))

        entries = [found.entry for found in do(List(task)).found]
        assert [entry.value for entry in entries] == ["2", "2"]
        assert all(entry.version > gone for entry in entries)
        assert do(Set(task, "a", "3", ANN)) > entries[0].version

    def test_entries_loaded_into_an_asset_have_a_history(
        self, do: Client, asset: AssetScope
    ) -> None:
        for n in range(self.history_limit):
            do(Set(asset, "a", str(n), ANN))
        add(do, scope_entries(asset, ("a", '"new"'), ("b", "1")))

        finish(do, (0, 2))

        steps = do(History(asset, "a"))
        assert len(steps) == self.history_limit
        assert [step.value for step in steps[:2]] == ['"new"', str(self.history_limit - 1)]
        assert steps[0].previous == steps[1].version
        assert [step.previous for step in do(History(asset, "b"))] == [0]

    def test_an_asset_is_the_same_by_name_and_by_uri(self, do: Client, asset: AssetScope) -> None:
        by_uri = AssetScope(uri="s3://lake/orders")
        add(
            do,
            scope_entries(AssetScope(name="orders"), ("a", "1")),
            scope_entries(by_uri, ("a", "2")),
        )

        with pytest.raises(InvalidInput, match="`a` of asset `orders` occurs more than once"):
            finish(do, (0, 2))

    def test_a_duplicate_key_is_named_and_nothing_is_written(
        self, do: Client, task: TaskScope
    ) -> None:
        add(do, scope_entries(task, ("a", "1")), scope_entries(NEW, ("k", "1"), ("b", "1")), part=1)
        add(do, scope_entries(NEW, ("k", "2")), part=2)

        with pytest.raises(InvalidInput, match=r"`k` of task imported/first/load\[3\] occurs more"):
            finish(do, (1, 3), (2, 1))

        assert do(Get(task, "a")) is None
        assert do(ListTasks(NEW.dag_id, NEW.run_id)) == ()

    @pytest.mark.parametrize("text", ["{", "null", "9223372036854775808"])
    def test_a_bad_value_is_named_and_its_batch_is_refused(
        self, do: Client, task: TaskScope, text: str
    ) -> None:
        do(StartLoad(LOAD, ANN))

        with pytest.raises(HoldfastError, match="`bad` of task sales/monday/load: "):
            do(AddToLoad(LOAD, 0, 0, (scope_entries(task, ("a", "1"), ("bad", text)),), ANN))

        with pytest.raises(Conflict, match="has 0 of the 1 entries"):
            finish(do, (0, 1))

    def test_an_unknown_asset_is_refused(self, do: Client, asset: AssetScope) -> None:
        with pytest.raises(UnknownAsset, match="customers"):
            add(do, scope_entries(CUSTOMERS, ("a", "1")))

    def test_an_asset_deleted_or_deactivated_meanwhile_is_refused(
        self, do: Client, task: TaskScope
    ) -> None:
        do(DeclareDagAssets("sales", (("orders", "o"), ("customers", "c"))))
        add(
            do,
            scope_entries(AssetScope(name="orders"), ("a", "1")),
            scope_entries(task, ("a", "1")),
        )
        do(DeclareDagAssets("sales", (("customers", "c"),)))

        with pytest.raises(AssetInactive, match="orders"):
            finish(do, (0, 2))
        do(DeleteAsset(AssetScope(name="orders")))
        with pytest.raises(UnknownAsset):
            finish(do, (0, 2))

        assert do(Get(task, "a")) is None

    def test_only_the_newest_attempt_may_load(self, do: Client, task: TaskScope) -> None:
        first = TaskWriter(task, do(StartAttempt(task)))
        add(do, scope_entries(task, ("a", "1")), writer=first)
        second = TaskWriter(task, do(StartAttempt(task)))

        with pytest.raises(StaleAttempt):
            do(AddToLoad(LOAD, 0, 1, (scope_entries(task, ("b", "1")),), first))
        with pytest.raises(StaleAttempt):
            finish(do, (0, 1), writer=first)
        assert finish(do, (0, 1), writer=second) == 1

        entry = do(GetEntry(task, "a"))
        assert entry is not None
        assert entry.writer == TaskWriter(task)

    def test_a_load_belongs_to_the_writer_that_started_it(
        self, do: Client, task: TaskScope
    ) -> None:
        me = TaskWriter(task, do(StartAttempt(task)))
        add(do, scope_entries(task, ("a", "1")), writer=me)

        with pytest.raises(NotFound, match="load-1 is not known"):
            do(AddToLoad(LOAD, 0, 1, (scope_entries(task, ("b", "1")),), ANN))
        with pytest.raises(NotFound, match="nothing was written"):
            finish(do, (0, 1), writer=ANN)
        do(DropLoad(LOAD, ANN))

        assert finish(do, (0, 1), writer=me) == 1

    def test_a_dropped_load_is_unknown(self, do: Client, task: TaskScope) -> None:
        add(do, scope_entries(task, ("a", "1")))
        do(DropLoad(LOAD, ANN))
        do(DropLoad(LOAD, ANN))

        with pytest.raises(NotFound, match="load-1 is not known"):
            finish(do, (0, 1))

    def test_a_finished_load_is_unknown(self, do: Client, task: TaskScope) -> None:
        add(do, scope_entries(task, ("a", "1")))
        finish(do, (0, 1))

        with pytest.raises(NotFound, match="load-1 is not known"):
            finish(do, (0, 1))

    def test_an_abandoned_load_is_removed_by_a_later_one(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        add(do, scope_entries(task, ("a", "1")))
        clock.forward(timedelta(days=1, seconds=1))

        do(StartLoad("load-2", ANN))

        with pytest.raises(NotFound, match="load-1 is not known"):
            finish(do, (0, 1))
        assert do(FinishLoad("load-2", (), ANN)) == 0
