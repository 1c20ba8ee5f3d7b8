"""Paging of lists, with concurrent writers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from holdfast import commands as c
from holdfast.commands.paging import check_page, in_pages
from holdfast.errors import InvalidInput, StoreUnavailable
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.portable.json_rules import MOST_LISTED
from holdfast.testing.memory_store import MemoryStore
from holdfast.wire.codec import answer_type, command_types

ANN = ApiWriter("ann")
TASK = TaskScope("etl", "r1", "load")
NAMES = [f"{number:04}" for number in range(2 * MOST_LISTED + 500)]


@pytest.fixture
def store() -> MemoryStore:
    store = MemoryStore()
    store.execute(c.RegisterTask(TASK))
    store.execute(c.SetMany(TASK, tuple((name, "1") for name in NAMES), ANN))
    store.execute(c.DeclareDagAssets("etl", tuple((name, f"s3://{name}") for name in NAMES)))
    return store


class Asked:
    """Client that answers as a server does, and makes a change before each page but the first."""

    def __init__(self, store: MemoryStore, *happening: Callable[[], Any]) -> None:
        self.store = store
        self.happening = list(happening)
        self.pages = 0

    def __call__(self, command: Any) -> Any:
        check_page(command)
        if self.pages and self.happening:
            self.happening.pop(0)()
        self.pages += 1
        return self.store.execute(command)


def test_concurrently_written_or_deleted_entries_neither_hide_nor_duplicate_others(
    store: MemoryStore,
) -> None:
    asked = Asked(
        store,
        lambda: store.execute(c.Delete(TASK, "0001", ANN)),
        lambda: store.execute(c.SetMany(TASK, (("0002a", "1"), ("0003a", "1")), ANN)),
    )

    page = in_pages(c.List(TASK), asked)

    assert [each.entry.key for each in page.found] == NAMES
    assert (page.total, asked.pages) == (len(NAMES), 3)


def test_a_limit_larger_than_a_page_is_respected(store: MemoryStore) -> None:
    page = in_pages(c.List(TASK, limit=MOST_LISTED + 7, offset=3), Asked(store))

    assert [each.entry.key for each in page.found] == NAMES[3 : MOST_LISTED + 10]
    assert page.total == len(NAMES)


def test_a_page_after_the_end_of_the_list_is_empty(store: MemoryStore) -> None:
    page = in_pages(c.List(TASK, offset=9999), Asked(store))
    behind = in_pages(c.List(TASK, after=(TASK, NAMES[0])), Asked(store))

    assert (page.found, page.total) == ((), len(NAMES))
    assert (len(behind.found), behind.total) == (len(NAMES) - 1, len(NAMES) - 1)


def test_a_list_that_fits_into_a_page_takes_one_request(store: MemoryStore) -> None:
    asked = Asked(store)

    in_pages(c.List(TASK, limit=MOST_LISTED), asked)
    in_pages(c.ListAssets(10), asked)

    assert asked.pages == 2


@pytest.mark.parametrize("name", ["0001", "0001a"])
def test_concurrently_added_or_removed_rows_neither_hide_nor_duplicate_others(
    store: MemoryStore, name: str
) -> None:
    def change() -> None:
        if name in NAMES:
            store.execute(c.DeleteAsset(AssetScope(name=name)))
        else:
            store.execute(c.DeclareAsset(name))

    found = in_pages(c.ListAssets(), Asked(store, change))

    expected = {*NAMES} ^ {name}
    assert [info.name for info in found] == sorted(expected)


def test_a_list_of_rows_that_changes_during_every_read_is_an_error(store: MemoryStore) -> None:
    changes = (
        lambda number=number: store.execute(c.DeclareAsset(f"!{number}")) for number in range(100)
    )

    with pytest.raises(StoreUnavailable, match="ListAssets lists changed during every read"):
        in_pages(c.ListAssets(), Asked(store, *changes))


@pytest.mark.parametrize(
    "command",
    [
        c.List(TASK),
        c.List(TASK, limit=MOST_LISTED + 1),
        c.ListAssets(),
        c.ListDags(),
        c.ListRuns(limit=MOST_LISTED + 1),
        c.ListTaskInstances(dag_id="etl", run_id="r1"),
        c.ListAssetEvents(limit=MOST_LISTED + 1),
    ],
    ids=lambda command: type(command).__name__,
)
def test_no_request_asks_for_more_than_a_page(command: c.Command[Any]) -> None:
    with pytest.raises(InvalidInput, match=f"{type(command).__name__} requests"):
        check_page(command)


def test_a_list_cannot_continue_after_an_entry_of_another_list() -> None:
    with pytest.raises(InvalidInput, match="which the list does not include"):
        c.List(TASK, after=(AssetScope(name="orders"), "k"))
    with pytest.raises(InvalidInput, match="cannot continue after"):
        c.List(c.AssetFilter(), after=(AssetScope(uri="s3://orders"), "k"))


@pytest.mark.parametrize("kind", command_types(), ids=lambda kind: kind.__name__)
def test_a_list_that_a_server_cuts_off_says_how_it_goes_on(kind: type[c.Command[Any]]) -> None:
    fields = kind.__struct_fields__
    answers_items = str(answer_type(kind)).startswith("tuple")

    assert kind.sized is ("max_size" in fields)
    if kind.sized and answers_items:
        assert kind.measured is not None
        assert kind.identity is not None or kind.goes_on is not None
    if kind.paged and answers_items:
        assert (kind.identity is not None) is ("offset" in fields)
