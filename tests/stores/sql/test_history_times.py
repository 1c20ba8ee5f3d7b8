"""Times of an entry and its history, by the database's own clock."""

from __future__ import annotations

from holdfast import commands as c
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import AssetScope
from holdfast.stores.sql import SqlStore

ORDERS = AssetScope(name="orders")
ANNA = ApiWriter("anna")


def test_the_newest_version_has_the_time_of_the_entry(database_url: str) -> None:
    with SqlStore(database_url) as store:
        store.execute(c.DeclareAsset("orders"))
        store.execute(c.Set(ORDERS, "cursor", "1", ANNA))

        entry = store.execute(c.GetEntry(ORDERS, "cursor"))
        [step] = store.execute(c.History(ORDERS, "cursor"))

    assert entry is not None
    assert step.updated_at == entry.updated_at


def test_a_rewind_to_the_time_of_an_entry_finds_that_entry(database_url: str) -> None:
    with SqlStore(database_url) as store:
        store.execute(c.DeclareAsset("orders"))
        store.execute(c.Set(ORDERS, "cursor", "1", ANNA))
        entry = store.execute(c.GetEntry(ORDERS, "cursor"))
        store.execute(c.Set(ORDERS, "cursor", "2", ANNA))
        assert entry is not None

        store.execute(c.Rewind(ORDERS, "cursor", c.AtTime(entry.updated_at), ANNA))

        assert store.execute(c.Get(ORDERS, "cursor")) == "1"
