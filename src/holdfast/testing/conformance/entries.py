"""Writing, reading, deleting and clearing of entries."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from holdfast import commands as c
from holdfast.commands import Clear, Delete, Get, GetEntry, List, RegisterTask, Set, SetMany
from holdfast.errors import UnknownAsset, UnknownTaskInstance
from holdfast.model.entry import TaskWriter, WatcherWriter, Writer
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.testing.client import Client
from holdfast.testing.clock import Clock
from holdfast.testing.conformance.fixtures import (
    ANN,
    CUSTOMERS,
    CUSTOMERS_URI,
    ORDERS,
    ORDERS_URI,
    TASK,
    StoreFixtures,
    supported,
)

MAPPED = [TaskScope("sales", "monday", "load", index) for index in range(3)]

NEIGHBOURS = [
    TaskScope("returns", "monday", "load"),
    TaskScope("sales", "tuesday", "load"),
    TaskScope("sales", "monday", "check"),
    TaskScope("sales", "monday", "load", 0),
    TaskScope("Sales", "monday", "load"),
    TaskScope("sales ", "monday", "load"),
]

WRITERS: list[Writer] = [
    TaskWriter(TASK),
    TaskWriter(TaskScope("returns", "tuesday", "count", 7)),
    WatcherWriter(),
    ANN,
]

ABOUT_ONE_TASK: list[c.Command[Any]] = [
    Get(TASK, "k"),
    GetEntry(TASK, "k"),
    List(TASK),
    Set(TASK, "k", "1", ANN),
    SetMany(TASK, (("k", "1"),), ANN),
    Delete(TASK, "k", ANN),
    Clear(TASK, ANN),
    Clear(TASK, ANN, all_map_indices=True),
    c.StartAttempt(TASK),
    c.FinishAttempt(TaskWriter(TASK, 1), succeeded=True),
]

ABOUT_ONE_ASSET: list[c.Command[Any]] = [
    Get(ORDERS, "k"),
    GetEntry(ORDERS, "k"),
    List(ORDERS),
    List(ORDERS, expiring_before=datetime(2026, 1, 1, tzinfo=UTC)),
    Set(ORDERS, "k", "1", ANN),
    SetMany(ORDERS, (("k", "1"),), ANN),
    Delete(ORDERS, "k", ANN),
    Clear(ORDERS, ANN),
    c.Advance(ORDERS, "k", "1", ANN),
    c.History(ORDERS, "k"),
    c.Rewind(ORDERS, "k", c.ToVersion(1), ANN),
    c.DeleteAsset(ORDERS),
]


class Text(str):
    """Text whose `str()` differs from its content, as with the names of enumerations."""

    __slots__ = ()

    def __str__(self) -> str:
        return f"not {self!r}"


class Entries(StoreFixtures):
    def test_a_value_that_was_set_is_returned_by_get(self, do: Client, scope: StoreScope) -> None:
        do(Set(scope, "job_id", '"app_1"', ANN))

        assert do(Get(scope, "job_id")) == '"app_1"'

    def test_a_string_of_a_subclass_is_stored_as_its_text(
        self, do: Client, scope: StoreScope
    ) -> None:
        do(Set(scope, Text("k"), "1", ANN))
        do(Set(scope, "l", "2", ANN))

        assert do(Get(scope, "k")) == "1"
        assert do(Get(scope, Text("l"))) == "2"
        named = TaskScope(Text("sales"), Text("monday"), Text("load"))
        assert (named, named.ti_id) == (
            TaskScope("sales", "monday", "load"),
            TaskScope("sales", "monday", "load").ti_id,
        )
        assert str(AssetScope(name=Text("orders"))) == str(AssetScope(name="orders"))

    def test_a_key_that_was_never_set_is_absent(self, do: Client, scope: StoreScope) -> None:
        assert do(Get(scope, "job_id")) is None

    def test_an_entry_that_was_never_set_is_absent(self, do: Client, scope: StoreScope) -> None:
        assert do(GetEntry(scope, "job_id")) is None
        assert do(List(scope)).found == ()

    def test_set_overwrites(self, do: Client, scope: StoreScope) -> None:
        do(Set(scope, "job_id", '"app_1"', ANN))
        do(Set(scope, "job_id", '"app_2"', ANN))

        assert do(Get(scope, "job_id")) == '"app_2"'

    def test_values_are_stored_verbatim(self, do: Client, scope: StoreScope) -> None:
        do(Set(scope, "k", '{"b": 1,  "a": 1.0, "c": "\\u00e9"}', ANN))

        assert do(Get(scope, "k")) == '{"b": 1,  "a": 1.0, "c": "\\u00e9"}'

    def test_an_entry_has_its_key_value_version_and_time(
        self, do: Client, scope: StoreScope, clock: Clock
    ) -> None:
        version = do(Set(scope, "rows", "42", ANN))

        entry = do(GetEntry(scope, "rows"))

        assert entry is not None
        assert (entry.key, entry.value, entry.version) == ("rows", "42", version)
        assert entry.updated_at == clock()
        assert entry.expires_at is None
        assert not entry.staged

    @pytest.mark.parametrize("writer", WRITERS, ids=str)
    def test_an_entry_names_its_last_writer(
        self, do: Client, scope: StoreScope, writer: Writer
    ) -> None:
        do(Set(scope, "k", "1", ANN))
        do(Set(scope, "k", "2", writer))

        entry = do(GetEntry(scope, "k"))

        assert entry is not None
        assert entry.writer == writer

    def test_delete_removes_only_that_key(self, do: Client, scope: StoreScope) -> None:
        do(Set(scope, "a", "1", ANN))
        do(Set(scope, "b", "2", ANN))

        do(Delete(scope, "a", ANN))

        assert do(Get(scope, "a")) is None
        assert do(Get(scope, "b")) == "2"

    def test_a_deleted_entry_is_absent(self, do: Client, scope: StoreScope) -> None:
        do(Set(scope, "a", "1", ANN))

        do(Delete(scope, "a", ANN))

        assert do(GetEntry(scope, "a")) is None
        assert do(List(scope)).total == 0

    def test_deleting_an_absent_key_does_nothing(self, do: Client, scope: StoreScope) -> None:
        do(Delete(scope, "a", ANN))

        assert do(Get(scope, "a")) is None

    def test_a_deleted_key_can_be_set_again(self, do: Client, scope: StoreScope) -> None:
        do(Set(scope, "a", "1", ANN))
        do(Delete(scope, "a", ANN))
        do(Set(scope, "a", "2", ANN))

        assert do(Get(scope, "a")) == "2"

    def test_clear_removes_every_key(self, do: Client, scope: StoreScope) -> None:
        do(Set(scope, "a", "1", ANN))
        do(Set(scope, "b", "2", ANN))

        do(Clear(scope, ANN))

        assert do(Get(scope, "a")) is None
        assert do(Get(scope, "b")) is None

    def test_clearing_an_empty_scope_does_nothing(self, do: Client, scope: StoreScope) -> None:
        do(Clear(scope, ANN))

        assert do(Get(scope, "a")) is None

    def test_set_many_writes_all_entries(self, do: Client, scope: StoreScope) -> None:
        do(Set(scope, "a", "0", ANN))

        do(SetMany(scope, (("a", "1"), ("b", "2")), ANN))

        assert do(Get(scope, "a")) == "1"
        assert do(Get(scope, "b")) == "2"

    def test_set_many_of_nothing_writes_nothing(self, do: Client, scope: StoreScope) -> None:
        do(SetMany(scope, (), ANN))

        assert do(List(scope)).total == 0

    def test_set_many_takes_the_last_value_of_a_repeated_key(
        self, do: Client, scope: StoreScope
    ) -> None:
        do(SetMany(scope, (("a", "1"), ("b", "2"), ("a", "3")), ANN))

        assert do(Get(scope, "a")) == "3"

    def test_set_many_takes_a_thousand_entries(self, do: Client, scope: StoreScope) -> None:
        values = tuple((f"part-{n:04}", str(n)) for n in range(1000))

        do(SetMany(scope, values, ANN))

        found = do(List(scope)).found
        assert tuple((each.entry.key, each.entry.value) for each in found) == values

    def test_an_unknown_task_instance_is_an_error(self, do: Client) -> None:
        for command in supported(do, ABOUT_ONE_TASK):
            with pytest.raises(UnknownTaskInstance, match="sales/monday/load"):
                do(command)

    def test_an_unknown_asset_is_an_error(self, do: Client) -> None:
        for command in supported(do, ABOUT_ONE_ASSET):
            with pytest.raises(UnknownAsset, match="orders"):
                do(command)

    def test_a_mistyped_asset_does_not_look_like_a_first_load(
        self, do: Client, asset: AssetScope
    ) -> None:
        do(Set(asset, "watermark", "1", ANN))

        with pytest.raises(UnknownAsset, match=r"`orderz`[^$]*orders"):
            do(Get(AssetScope(name="orderz"), "watermark"))

    def test_reading_registers_nothing(self, do: Client) -> None:
        with pytest.raises(UnknownTaskInstance):
            do(Get(TASK, "k"))
        with pytest.raises(UnknownTaskInstance):
            do(Get(TASK, "k"))

    def test_registering_a_task_twice_keeps_its_entries(self, do: Client, task: TaskScope) -> None:
        do(Set(task, "k", "1", ANN))

        do(RegisterTask(task))

        assert do(Get(task, "k")) == "1"

    def test_the_task_instances_of_a_run_are_listed_in_order(self, do: Client) -> None:
        for scope in reversed([*NEIGHBOURS, TASK, *MAPPED]):
            do(RegisterTask(scope))

        listed = do(c.ListTasks("sales", "monday"))

        assert listed == (TaskScope("sales", "monday", "check"), TASK, *MAPPED)
        assert do(c.ListTasks("sales", "never")) == ()

    def test_task_instances_do_not_see_each_others_entries(
        self, do: Client, task: TaskScope
    ) -> None:
        for scope in [task, *NEIGHBOURS]:
            do(RegisterTask(scope))
            do(Set(scope, "k", f'"of {scope}"', ANN))

        do(Clear(task, ANN))

        assert do(Get(task, "k")) is None
        assert [do(Get(scope, "k")) for scope in NEIGHBOURS] == [
            f'"of {scope}"' for scope in NEIGHBOURS
        ]

    def test_assets_do_not_see_each_others_entries(self, do: Client, asset: AssetScope) -> None:
        do(c.DeclareAsset("customers", CUSTOMERS_URI))
        do(Set(asset, "k", '"mine"', ANN))
        do(Set(CUSTOMERS, "k", '"theirs"', ANN))

        do(Clear(CUSTOMERS, ANN))

        assert do(Get(asset, "k")) == '"mine"'
        assert do(Get(CUSTOMERS, "k")) is None

    def test_an_asset_is_the_same_by_name_uri_and_id(self, do: Client) -> None:
        declared = do(c.DeclareAsset("orders", ORDERS_URI))
        do(Set(AssetScope(name="orders"), "k", "1", ANN))

        assert do(Get(AssetScope(uri=ORDERS_URI), "k")) == "1"
        assert do(Get(AssetScope(asset_id=declared.asset_id), "k")) == "1"
        assert do(Get(declared.scope, "k")) == "1"

    def test_clear_of_one_map_index_leaves_the_others(self, do: Client) -> None:
        first, second, third = self._mapped_entries(do)

        do(Clear(second, ANN))

        assert do(Get(first, "k")) == "0"
        assert do(Get(second, "k")) is None
        assert do(Get(third, "k")) == "2"

    def test_clear_of_all_map_indices_clears_this_task_in_this_run_only(
        self, do: Client, task: TaskScope
    ) -> None:
        first, second, third = self._mapped_entries(do)
        for scope in (task, *NEIGHBOURS[:3]):
            do(RegisterTask(scope))
            do(Set(scope, "k", '"here"', ANN))

        do(Clear(second, ANN, all_map_indices=True))

        assert [do(Get(scope, "k")) for scope in (first, second, third, task)] == [None] * 4
        assert [do(Get(scope, "k")) for scope in NEIGHBOURS[:3]] == ['"here"'] * 3

    def test_all_map_indices_of_a_task_without_unmapped_instance_can_be_cleared(
        self, do: Client
    ) -> None:
        mapped = self._mapped_entries(do)

        do(Clear(TASK, ANN, all_map_indices=True))

        assert [do(Get(scope, "k")) for scope in mapped] == [None] * 3

    def _mapped_entries(self, do: Client) -> list[TaskScope]:
        for scope in MAPPED:
            do(RegisterTask(scope))
            do(Set(scope, "k", str(scope.map_index), ANN))
        return MAPPED

    def test_concurrent_writes_all_succeed(self, do: Client, scope: StoreScope) -> None:
        versions = do.together([Set(scope, f"k{n}", str(n), ANN) for n in range(8)])

        assert len(set(versions)) == 8
        assert [do(Get(scope, f"k{n}")) for n in range(8)] == [str(n) for n in range(8)]

    def test_concurrent_writes_of_one_new_key_all_succeed(
        self, do: Client, scope: StoreScope
    ) -> None:
        versions = do.together([Set(scope, "k", str(n), ANN) for n in range(8)])

        entry = do(GetEntry(scope, "k"))
        assert entry is not None
        assert entry.version == max(versions)
        assert entry.value == str(versions.index(entry.version))

    def test_concurrent_calls_of_set_many_do_not_mix(self, do: Client, scope: StoreScope) -> None:
        do.together(
            [
                SetMany(scope, tuple((key, str(n)) for key in keys), ANN)
                for n, keys in enumerate(["abc", "cba", "bca", "acb"])
            ]
        )

        assert len({do(Get(scope, key)) for key in "abc"}) == 1

    def test_concurrent_registrations_of_a_task_succeed(self, do: Client) -> None:
        assert do.together([RegisterTask(TASK)] * 8) == [None] * 8
