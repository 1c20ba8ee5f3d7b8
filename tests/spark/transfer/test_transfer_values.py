"""Bulk loads of stored text: references are loaded as such, and never by accident."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

import pytest
from servers import SqliteDatabase

from holdfast.commands import (
    AddToLoad,
    CountPurges,
    DeclareAsset,
    FinishLoad,
    Get,
    QueueObjects,
    RegisterTask,
    ScopeEntries,
    StartLoad,
    TakePurges,
)
from holdfast.errors import Forbidden, InvalidInput, ObjectBusy
from holdfast.model.entry import ApiWriter, TaskWriter, Writer
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.stores.sql import SqlStore

ANN = ApiWriter("ann")
TASK = TaskScope("sales", "monday", "load")
REFERENCE = '{"__holdfast_ref__":"s3://bucket/one"}'


@pytest.fixture
def store(sqlite_database: SqliteDatabase) -> Iterator[SqlStore]:
    with SqlStore(sqlite_database.empty()) as store:
        yield store


def adding(value: str, as_kept: bool, writer: Writer = ANN, limit: int = 0) -> AddToLoad:
    lots = (ScopeEntries(TASK, (("k", value, None),)),)
    return AddToLoad("one", 0, 0, lots, writer, limit, as_kept)


def kept(value: str, as_kept: bool = True) -> str:
    [(_, [(_, text, _)])] = adding(value, as_kept).checked()
    return text


def load(store: SqlStore, scope: StoreScope, value: str) -> None:
    store.execute(StartLoad("one", ANN))
    store.execute(
        AddToLoad("one", 0, 0, (ScopeEntries(scope, (("k", value, None),)),), ANN, 0, True)
    )
    store.execute(FinishLoad("one", ((0, 1),), ANN))


@pytest.mark.parametrize(
    "text",
    [
        REFERENCE,
        '{"__holdfast_loc__":"place"}',
        '{"__holdfast_value__":{"__holdfast_ref__":"mine"}}',
        '{"n":1}',
    ],
)
def test_stored_text_is_loaded_unchanged(text: str) -> None:
    assert kept(text) == text


@pytest.mark.parametrize(
    "text",
    [
        '{ "__holdfast_ref__": "s3://bucket/one" }',
        '{"__holdfast_ref__":1}',
        '{"__holdfast_held__":true}',
    ],
)
def test_text_that_no_store_would_write_is_a_value(text: str) -> None:
    assert kept(text).startswith('{"__holdfast_value__":')


def test_a_load_of_a_user_creates_no_reference() -> None:
    assert kept(REFERENCE, as_kept=False) == f'{{"__holdfast_value__":{REFERENCE}}}'


def test_the_error_for_text_that_is_not_json_names_it() -> None:
    with pytest.raises(InvalidInput, match="`k` of task sales/monday/load: the value is not JSON"):
        kept('{"__holdfast_ref__":')


def test_a_task_may_not_load_references() -> None:
    with pytest.raises(Forbidden, match="may not load values in stored form"):
        list(adding(REFERENCE, True, TaskWriter(TASK, 1)).checked())


def test_a_value_that_was_in_a_store_may_be_of_any_size() -> None:
    [(_, [(_, text, _)])] = adding('"0123456789"', True, limit=5).checked()

    assert text == '"0123456789"'


@pytest.mark.parametrize("scope", [TASK, AssetScope(name="orders")])
def test_an_object_that_a_load_refers_to_is_not_purged(store: SqlStore, scope: StoreScope) -> None:
    store.execute(RegisterTask(TASK))
    store.execute(DeclareAsset("orders"))
    store.execute(QueueObjects(((scope, "k", REFERENCE), (scope, "other", REFERENCE))))

    load(store, scope, REFERENCE)

    assert store.execute(Get(scope, "k")) == REFERENCE
    taken = store.execute(TakePurges(10, timedelta(minutes=1), "me"))
    assert [purge.key for purge in taken.purges] == ["other"]


def test_a_load_is_refused_while_an_object_of_it_is_being_deleted(store: SqlStore) -> None:
    store.execute(RegisterTask(TASK))
    store.execute(QueueObjects(((TASK, "k", REFERENCE),)))
    store.execute(TakePurges(10, timedelta(minutes=1), "me"))

    with pytest.raises(ObjectBusy):
        load(store, TASK, REFERENCE)

    assert store.execute(Get(TASK, "k")) is None
    assert store.execute(CountPurges()).waiting == 1
