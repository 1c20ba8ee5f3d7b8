"""`holdfast pools`: lists, changes, deletions."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from holdfast import commands as c
from holdfast.connection import open_store
from holdfast.model.pool import Pool
from holdfast.settings import load
from holdfast.store import Store
from holdfast.stores.sql import SqlStore


@pytest.fixture
def store() -> Iterator[Store]:
    """Yield the embedded store of the project."""
    with open_store(load()) as store:
        yield store


def test_pools_are_created_listed_changed_and_deleted(holdfast, store):
    created = holdfast("pools", "set", "warehouse", "3", "--description", "the old one")
    changed = holdfast("pools", "set", "warehouse", "1")
    unlimited = holdfast("pools", "set", "default_pool", "-1")
    listed = holdfast("pools", "list")
    deleted = holdfast("pools", "delete", "warehouse", "--yes")

    assert created.err == "Pool `warehouse` has 3 slots, 0 in use.\n"
    assert changed.err == "Pool `warehouse` has 1 slot, 0 in use.\n"
    assert unlimited.err == "Pool `default_pool` has no limit.\n"
    assert listed.out.splitlines() == [
        "pool\tslots\tused\tfree\tdescription",
        "default_pool\tno limit\t0\tno limit\tTasks that name no pool",
        "warehouse\t1\t0\t1\tthe old one",
    ]
    assert deleted.err == "Deleted pool `warehouse`.\n"
    assert [one.name for one in store.execute(c.ListPools())] == ["default_pool"]


def test_a_pool_is_printed_as_json(holdfast, store):
    result = holdfast("pools", "set", "warehouse", "3", "--json")

    pool = {"name": "warehouse", "slots": 3, "occupied_slots": 0, "open_slots": 3}
    assert json.loads(result.out) == pool | {"description": ""}


@pytest.mark.parametrize(
    ("line", "status", "told"),
    [
        (("set", "warehouse", "-2"), 2, "-2 is not in the range"),
        (("set", "warehouse", "many"), 2, "'many' is not a valid integer"),
        (("delete", "ware", "--yes"), 1, "there is no pool `ware`\nhint: there are: default_pool"),
        (("delete", "warehouse"), 2, "add --yes"),
        (("delete", "default_pool", "--yes"), 2, "cannot be deleted"),
    ],
)
def test_bad_input_is_one_clear_error(holdfast, store, line, status, told):
    result = holdfast("pools", *line)

    assert result.status == status
    assert told in result.err


@pytest.mark.parametrize("text", ["\x1b[2J", "a\nb", "\x9b31m", "x" * 1001])
def test_a_description_that_would_disturb_a_list_is_refused(holdfast, store, text):
    result = holdfast("pools", "set", "warehouse", "3", "--description", text)

    assert result.status == 2
    assert "description of pool `warehouse` has " in result.err
    assert "\x1b" not in result.err
    assert [one.name for one in store.execute(c.ListPools())] == ["default_pool"]


def test_control_characters_that_a_store_has_already_are_not_printed(holdfast, monkeypatch):
    bad = Pool(name="warehouse", slots=1, description="\x1b[2J\nold", used=0)
    monkeypatch.setattr(SqlStore, "execute", lambda store, command: (bad,))

    assert holdfast("pools", "list").out.splitlines()[1:] == ["warehouse\t1\t0\t1\t[2J old"]
