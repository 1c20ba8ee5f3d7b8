"""Lists of one scope or of a filter: order and paging."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from holdfast.commands import (
    AssetFilter,
    DeclareAsset,
    DeclareDagAssets,
    Delete,
    List,
    ListAssets,
    RegisterTask,
    Set,
    SetMany,
    TaskFilter,
)
from holdfast.model.entry import Page
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.portable.json_rules import MOST_LISTED
from holdfast.testing.client import Client
from holdfast.testing.clock import Clock
from holdfast.testing.conformance.fixtures import ANN, CUSTOMERS, CUSTOMERS_URI, StoreFixtures

BY_CODE_POINT = [
    "!",
    "A",
    "B",
    "a",
    "a b",
    "a!",
    "a/b",
    "aa",
    "b",
    "\u00e9",
    "\uffee",
    "\U0001f680",
]

EVERYWHERE = [
    TaskScope("returns", "monday", "load"),
    TaskScope("sales", "monday", "check"),
    TaskScope("sales", "monday", "load"),
    TaskScope("sales", "monday", "load", 0),
    TaskScope("sales", "monday", "load", 2),
    TaskScope("sales", "monday", "load", 10),
    TaskScope("sales", "tuesday", "load"),
]

FILTERS = [
    (TaskFilter(), EVERYWHERE),
    (TaskFilter(dag_id="sales"), EVERYWHERE[1:]),
    (TaskFilter(run_id="monday"), EVERYWHERE[:6]),
    (TaskFilter(task_id="check"), EVERYWHERE[1:2]),
    (TaskFilter(map_index=-1), [*EVERYWHERE[:3], EVERYWHERE[6]]),
    (TaskFilter(dag_id="sales", run_id="monday", task_id="load"), EVERYWHERE[2:6]),
    (TaskFilter("sales", "monday", "load", 2), EVERYWHERE[4:5]),
    (TaskFilter(dag_id="Sales"), []),
    (TaskFilter(dag_id="nowhere"), []),
]


def keys(page: Page) -> list[str]:
    return [each.entry.key for each in page.found]


def scopes(page: Page) -> list[StoreScope]:
    return [each.scope for each in page.found]


class Listing(StoreFixtures):
    def test_keys_are_in_order_of_code_points(self, do: Client, scope: StoreScope) -> None:
        do(SetMany(scope, tuple((key, "1") for key in reversed(BY_CODE_POINT)), ANN))

        assert keys(do(List(scope))) == BY_CODE_POINT

    def test_a_listed_entry_is_complete(self, do: Client, task: TaskScope, clock: Clock) -> None:
        expiry = clock() + timedelta(hours=1)
        version = do(Set(task, "k", '"v"', ANN, expiry))

        (found,) = do(List(task)).found

        assert found.scope == task
        assert (found.entry.key, found.entry.value, found.entry.version) == ("k", '"v"', version)
        assert (found.entry.updated_at, found.entry.expires_at) == (clock(), expiry)
        assert found.entry.writer == ANN

    def test_a_listed_asset_has_its_id_name_and_uri(self, do: Client, asset: AssetScope) -> None:
        declared = do(DeclareAsset("orders", "s3://lake/orders"))
        do(Set(asset, "k", "1", ANN))

        assert scopes(do(List(asset))) == [declared.scope]

    def test_a_prefix_selects_keys(self, do: Client, scope: StoreScope) -> None:
        self._set_all(do, scope, ["part-1", "part-2", "Part-3", "par", "a part-4"])

        assert keys(do(List(scope, prefix="part-"))) == ["part-1", "part-2"]

    def test_a_prefix_has_no_wildcards(self, do: Client, scope: StoreScope) -> None:
        names = ["a b", "a%b", "a'b", "a*b", "a[b", "a\\b", "a_b", "axb"]
        self._set_all(do, scope, names)

        assert [keys(do(List(scope, prefix=name[:2]))) for name in names] == [
            [name] for name in names
        ]
        assert keys(do(List(scope, prefix="%"))) == []
        assert keys(do(List(scope, prefix="_"))) == []

    def test_a_prefix_may_be_any_text(self, do: Client, scope: StoreScope) -> None:
        self._set_all(do, scope, ["e1", "\u00e91", "\U0001f6801", "\U0010ffff", "\U0010ffff1"])

        assert keys(do(List(scope, prefix="\u00e9"))) == ["\u00e91"]
        assert keys(do(List(scope, prefix="\U0001f680"))) == ["\U0001f6801"]
        assert keys(do(List(scope, prefix="\U0010ffff"))) == ["\U0010ffff", "\U0010ffff1"]

    def test_limit_and_offset_select_a_page_and_the_total_counts_all_entries(
        self, do: Client, scope: StoreScope
    ) -> None:
        self._set_all(do, scope, ["a", "b", "c", "d", "e"])

        page = do(List(scope, limit=2, offset=1))

        assert keys(page) == ["b", "c"]
        assert page.total == 5

    def test_an_offset_alone_skips_entries(self, do: Client, scope: StoreScope) -> None:
        self._set_all(do, scope, ["a", "b", "c"])

        page = do(List(scope, offset=2))

        assert keys(page) == ["c"]
        assert page.total == 3

    def test_a_page_after_the_end_is_empty_and_has_the_total(
        self, do: Client, scope: StoreScope
    ) -> None:
        self._set_all(do, scope, ["a", "b", "c"])

        page = do(List(scope, limit=2, offset=4))

        assert keys(page) == []
        assert page.total == 3

    def test_a_limit_of_zero_only_counts(self, do: Client, scope: StoreScope) -> None:
        self._set_all(do, scope, ["a", "b", "c"])

        assert do(List(scope, limit=0)) == Page((), 3)

    def test_the_total_counts_the_selected_entries(self, do: Client, scope: StoreScope) -> None:
        self._set_all(do, scope, ["a1", "a2", "b1"])

        assert do(List(scope, prefix="a", limit=1)).total == 2

    def test_deleted_entries_are_not_listed(self, do: Client, scope: StoreScope) -> None:
        self._set_all(do, scope, ["a", "b"])
        do(Delete(scope, "a", ANN))

        assert keys(do(List(scope))) == ["b"]

    def test_updated_since_selects_later_writes(
        self, do: Client, scope: StoreScope, clock: Clock
    ) -> None:
        self._set_all(do, scope, ["old", "rewritten"])
        clock.forward(timedelta(hours=1))
        since = clock()
        self._set_all(do, scope, ["rewritten", "new"])

        assert keys(do(List(scope, updated_since=since))) == ["new", "rewritten"]

    def test_expiring_before_selects_entries_that_expire_earlier(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        do(Set(task, "never", "1", ANN))
        do(Set(task, "tomorrow", "1", ANN, clock() + timedelta(days=1)))
        do(Set(task, "next month", "1", ANN, clock() + timedelta(days=30)))

        found = do(List(task, expiring_before=clock() + timedelta(days=2)))

        assert keys(found) == ["tomorrow"]

    def test_a_filter_selects_task_instances_in_order(self, do: Client) -> None:
        for scope in reversed(EVERYWHERE):
            do(RegisterTask(scope))
            do(Set(scope, "k", "1", ANN))

        pages = [do(List(where)) for where, _ in FILTERS]

        assert [scopes(page) for page in pages] == [matching for _, matching in FILTERS]
        assert [page.total for page in pages] == [len(matching) for _, matching in FILTERS]

    def test_a_filter_and_a_prefix_select_together(self, do: Client) -> None:
        for scope in EVERYWHERE:
            do(RegisterTask(scope))
            do(SetMany(scope, (("a", "1"), ("b", "1")), ANN))

        page = do(List(TaskFilter(run_id="tuesday"), prefix="b"))

        assert (scopes(page), keys(page)) == (EVERYWHERE[6:], ["b"])

    def test_a_page_can_span_scopes(self, do: Client) -> None:
        for scope in EVERYWHERE[:2]:
            do(RegisterTask(scope))
            do(SetMany(scope, (("a", "1"), ("b", "1")), ANN))

        page = do(List(TaskFilter(), limit=2, offset=1))

        assert (scopes(page), keys(page)) == (EVERYWHERE[:2], ["b", "a"])

    def test_a_filter_of_assets_lists_them_by_name(self, do: Client, asset: AssetScope) -> None:
        do(DeclareAsset("customers", CUSTOMERS_URI))
        do(Set(asset, "k", "1", ANN))
        do(Set(CUSTOMERS, "k", "1", ANN))

        found = do(List(AssetFilter())).found

        assert [str(each.scope) for each in found] == [str(CUSTOMERS), str(asset)]

    def test_a_filter_that_matches_nothing_is_no_error(self, do: Client) -> None:
        assert do(List(TaskFilter())) == Page((), 0)
        assert do(List(AssetFilter())) == Page((), 0)

    def test_a_page_starts_after_an_entry_whatever_was_written_before_it(
        self, do: Client, scope: StoreScope
    ) -> None:
        self._set_all(do, scope, BY_CODE_POINT)
        first = do(List(scope, limit=5))
        last = first.found[-1]
        do(Delete(scope, "A", ANN))
        do(Delete(scope, last.entry.key, ANN))
        self._set_all(do, scope, ["0", "00"])

        rest = do(List(scope, after=(last.scope, last.entry.key)))
        some = do(List(scope, limit=2, offset=1, after=(last.scope, last.entry.key)))

        assert keys(first) + keys(rest) == BY_CODE_POINT
        assert (keys(some), some.total) == (BY_CODE_POINT[6:8], 2)

    def test_a_page_starts_after_an_entry_of_another_scope(self, do: Client) -> None:
        for scope in EVERYWHERE:
            do(RegisterTask(scope))
            do(SetMany(scope, (("a", "1"), ("b", "1")), ANN))

        behind = [
            do(List(TaskFilter(), limit=2, after=(scope, key)))
            for scope, key in [(EVERYWHERE[4], "a"), (TaskScope("sales", "monday", "m"), "z")]
        ]

        assert [scopes(page) for page in behind] == [EVERYWHERE[4:6], [EVERYWHERE[6]] * 2]
        assert [keys(page) for page in behind] == [["b", "a"], ["a", "b"]]

    def test_a_page_of_assets_starts_after_a_given_one(self, do: Client, asset: AssetScope) -> None:
        do(DeclareAsset("customers", CUSTOMERS_URI))
        do(Set(asset, "k", "1", ANN))
        do(Set(CUSTOMERS, "k", "1", ANN))

        assert scopes(do(List(AssetFilter(), after=(CUSTOMERS, "j")))) == scopes(
            do(List(AssetFilter()))
        )
        assert [str(at) for at in scopes(do(List(AssetFilter(), after=(CUSTOMERS, "k"))))] == [
            str(asset)
        ]

    def test_more_entries_than_a_page_are_all_listed_once(
        self, do: Client, task: TaskScope
    ) -> None:
        names = [f"{number:04}" for number in range(MOST_LISTED + 1)]
        self._set_all(do, task, names)

        page = do(List(task))
        part = do(List(TaskFilter(), limit=MOST_LISTED + 1, offset=1))

        assert (keys(page), page.total) == (names, len(names))
        assert (keys(part), part.total) == (names[1:], len(names))

    def test_more_assets_than_a_page_are_all_listed_once(self, do: Client) -> None:
        names = [f"{number:04}" for number in range(MOST_LISTED + 1)]
        do(DeclareDagAssets("sales", tuple((name, f"s3://{name}") for name in names)))

        assert [info.name for info in do(ListAssets())] == names
        assert [info.name for info in do(ListAssets(MOST_LISTED + 1, 1))] == names[1:]

    def test_the_accessor_lists_keys_and_items(self, accessor: Any) -> None:
        accessor.set_many({"b": [2], "a": 1})

        assert accessor.keys() == ["a", "b"]
        assert accessor.items() == [("a", 1), ("b", [2])]

    def _set_all(self, do: Client, scope: StoreScope, keys: list[str]) -> None:
        do(SetMany(scope, tuple((key, "1") for key in keys), ANN))
