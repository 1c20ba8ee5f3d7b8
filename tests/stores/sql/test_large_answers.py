"""Large answers, read from the database and sent in parts."""

from __future__ import annotations

import tracemalloc
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from holdfast import commands as c
from holdfast.commands import paging
from holdfast.errors import ValueTooLarge
from holdfast.model.entry import ApiWriter, Found, Page, TaskWriter
from holdfast.model.run import TaskState
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.value import as_reference
from holdfast.store import Store
from holdfast.stores.sql import SqlStore
from holdfast.testing.runs.samples import (
    FIRST,
    ORDERS_CHANGED,
    ORDERS_SPEC,
    RUN,
    SUCCESS,
    begin,
    dag,
    emit,
    finish,
    start,
)

ANN = ApiWriter("ann")
TASK = TaskScope("sales", "monday", "load")
ORDERS = AssetScope(name="orders")
KEYS = [f"{number:02}" for number in range(20)]
LARGE = f'"{"é" * 500_000}"'


@pytest.fixture(params=[TASK, ORDERS], ids=["task", "asset"])
def scope(request: pytest.FixtureRequest, store: Store) -> StoreScope:
    store.execute(c.RegisterTask(TASK))
    store.execute(c.DeclareAsset("orders"))
    return request.param  # type: ignore[no-any-return]


def keys(found: tuple[Found, ...]) -> list[str]:
    return [one.entry.key for one in found]


def test_a_page_ends_with_the_value_that_exceeds_its_size(store: Store, scope: StoreScope) -> None:
    value = '"ü2345678"'
    for key in KEYS[:5]:
        store.execute(c.Set(scope, key, value, ANN))
    command = c.List(scope, limit=10, max_size=2 * len(value))

    page = store.execute(command)
    last = page.found[-1].scope, page.found[-1].entry.key
    rest = store.execute(msgspec.structs.replace(command, after=last))

    assert (keys(page.found), page.total, page.more) == (KEYS[:3], 5, True)
    assert {one.entry.value for one in page.found} == {value}
    assert (keys(rest.found), rest.total, rest.more) == (KEYS[3:5], 2, False)


def test_a_list_of_large_values_is_complete(
    store: Store, scope: StoreScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "LARGEST_PAGE", 50)
    texts = tuple((key, f'"{"v" * number}"') for number, key in enumerate(KEYS))
    store.execute(c.SetMany(scope, texts, ANN))

    everything = store.execute(c.List(scope))
    some = store.execute(c.List(scope, limit=12, offset=3))

    assert (keys(everything.found), everything.total) == (KEYS, 20)
    assert (keys(some.found), some.total) == (KEYS[3:15], 20)
    assert all(page.more is False for page in (everything, some))


def test_a_page_of_large_values_does_not_hold_them_all_in_memory(
    store: Store, scope: StoreScope
) -> None:
    if not isinstance(store, SqlStore):
        pytest.skip("memory is measured where the database is read")
    for key in KEYS:
        store.execute(c.Set(scope, key, LARGE, ANN))
    command = c.List(scope, limit=1000, max_size=1_000_000)
    store.execute(command)

    tracemalloc.start()
    page = store.execute(command)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert (keys(page.found), page.total) == (KEYS[:2], 20)
    assert peak < 12 * len(LARGE)


def test_versions_end_with_the_one_that_exceeds_the_size(store: Store, scope: StoreScope) -> None:
    for number in range(5):
        store.execute(c.Set(ORDERS, "k", f'"{"x" * 1500}{number}"', ANN))
    command = c.History(ORDERS, "k", max_size=2000)

    newest = store.execute(command)
    older = store.execute(msgspec.structs.replace(command, before=newest[-1].version))

    assert [(step.value or "")[-2] for step in (*newest, *older)] == ["4", "3", "2", "1"]


def test_a_history_of_large_values_is_complete(
    store: Store, scope: StoreScope, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "LARGEST_PAGE", 25)
    for number in range(12):
        store.execute(c.Set(ORDERS, "k", f'"{number:010}"', ANN))
    store.execute(c.Delete(ORDERS, "k", ANN))

    steps = store.execute(c.History(ORDERS, "k"))

    values = [f'"{number:010}"' for number in reversed(range(12))]
    assert [step.value for step in steps] == [None, *values]


def test_large_results_are_complete(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "LARGEST_PAGE", 2000)
    begin(store)
    results = [(index, f'"{"r" * 1500}{index}"') for index in range(7)]
    for index, result in results:
        scope = TaskScope(*RUN, "mapped", index)
        store.execute(
            c.ChangeTasks(*RUN, FIRST, (c.TaskChange("mapped", index, TaskState.SCHEDULED),))
        )
        finish(store, start(store, scope), msgspec.structs.replace(SUCCESS, result=result))

    found = store.execute(c.GetResults(*RUN, "mapped"))
    some = store.execute(c.GetResults(*RUN, "mapped", max_size=2000))

    assert found == tuple(results)
    assert some == tuple(results[:2])


def test_events_with_large_extras_are_complete(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paging, "LARGEST_PAGE", 2000)
    sizes = [10, 1500, 1500, 1900, 10, 1900, 1900, 10, 10, 10]
    extras = [f'{{"{number}":"{"e" * size}"}}' for number, size in enumerate(sizes)]
    emit(store, *(msgspec.structs.replace(ORDERS_CHANGED, extra=extra) for extra in extras))

    found = store.execute(c.ListAssetEvents(limit=9))

    assert [event.extra for event in found] == extras[:0:-1]


def test_an_item_that_is_larger_than_a_page_is_an_error(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3):
        conf = f'{{"c":"{"c" * 3000}"}}'
        store.execute(c.CreateRun(dag_id="sales", run_id=str(number), conf=conf))
    monkeypatch.setattr(paging, "LARGEST_PAGE", 2000)

    with pytest.raises(ValueTooLarge, match="'sales', '2'"):
        paging.in_pages(
            c.ListRuns(limit=10), lambda command: store.execute(paging.bounded(command))
        )


def test_the_events_of_a_run_are_complete(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "LARGEST_PAGE", 2000)
    store.execute(c.SaveFile("sales.py", (dag("sales", ORDERS_SPEC),)))
    extras = [f'{{"{number}":"{"e" * 1500}"}}' for number in range(7)]
    emit(store, *(msgspec.structs.replace(ORDERS_CHANGED, extra=extra) for extra in extras))
    store.execute(c.CreateAssetRun("sales", "r"))

    found = store.execute(c.RunEvents("sales", "r"))
    some = store.execute(c.RunEvents("sales", "r", 100, 1, max_size=2000))

    assert [event.extra for event in found] == extras
    assert [event.extra for event in some] == extras[1:3]


@pytest.mark.parametrize(
    "command",
    [
        c.ListRuns(limit=1000),
        c.History(ORDERS, "k"),
        c.ListAssetEvents(ORDERS, limit=1000),
        c.List(ORDERS, limit=1000),
    ],
    ids=lambda command: type(command).__name__,
)
@pytest.mark.parametrize("max_size", [3000, 100_000])
def test_rows_added_while_a_page_is_read_hide_nothing(
    store: Store, command: Any, max_size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Add rows during a page, which ends where its size is exceeded, or where the list does."""
    if not isinstance(store, SqlStore):
        pytest.skip("the queries of a page are seen where the database is read")
    store.execute(c.DeclareAsset("orders", "s3://orders"))
    for number in range(5):
        _add(store, number, 1500)
    whole = _sizes(command, store.execute(command))
    writer = SqlStore(store._url.render_as_string(hide_password=False))
    run = store._run
    written: list[int] = []

    def run_beside_a_writer(cursor: Any, query: Any) -> Any:
        if written == [] and isinstance(query[1], dict) and "whole" in query[1]:
            found = run(cursor, query)
            written.extend(range(5, 8))
            for number in written:
                _add(writer, number, 10)
            return found
        return run(cursor, query)

    monkeypatch.setattr(store, "_run", run_beside_a_writer)
    with writer:
        page = store.execute(msgspec.structs.replace(command, max_size=max_size))

    assert written
    sizes = _sizes(command, page)
    assert sum(sizes) > max_size or sizes in (whole, _sizes(command, store.execute(command)))


def _add(store: Store, number: int, size: int) -> None:
    text = f'{{"{number}":"{"x" * size}"}}'
    store.execute(c.CreateRun(dag_id="sales", run_id=f"r{number}", conf=text))
    store.execute(c.Set(ORDERS, "k", text, ANN))
    store.execute(c.Set(ORDERS, f"a{9 - number}", text, ANN))
    emit(store, msgspec.structs.replace(ORDERS_CHANGED, extra=text))


def _sizes(command: Any, answer: Any) -> list[int]:
    if isinstance(answer, Page):
        return [len(one.entry.value) for one in answer.found]
    return [len(command.measured(item)) for item in answer]


def test_runs_with_a_large_conf_are_complete(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "LARGEST_PAGE", 2000)
    for number in range(6):
        conf = f'{{"c":"{"c" * 1500}"}}'
        store.execute(c.CreateRun(dag_id="sales", run_id=str(number), conf=conf))

    found = store.execute(c.ListRuns())

    assert [run.run_id for run in found] == ["5", "4", "3", "2", "1", "0"]


@pytest.mark.parametrize("table", ["task_store", "asset_store"])
def test_a_slice_ends_with_the_value_that_exceeds_its_size(
    store: Store, scope: StoreScope, table: str
) -> None:
    for owner in (TASK, ORDERS):
        store.execute(c.SetMany(owner, tuple((key, f'"{"x" * 1500}"') for key in KEYS[:5]), ANN))
    scan = c.Scan(table=table, columns=("key", "value"), limit=100, max_size=4000)

    first = store.execute(scan)
    rest = store.execute(msgspec.structs.replace(scan, after=first.last))

    assert [first.columns[0], rest.columns[0]] == [tuple(KEYS[:3]), tuple(KEYS[3:5])]
    assert rest.last is None


def test_purges_end_with_the_reference_that_exceeds_the_size(
    store: Store, scope: StoreScope
) -> None:
    for key in KEYS[:3]:
        store.execute(c.Set(scope, key, as_reference("p" * 1500, in_place=True), ANN))
    store.execute(c.Clear(scope, ANN))
    command = c.TakePurges(10, timedelta(minutes=1), "taker", c.Part(scope), max_size=2000)

    first, second = store.execute(command), store.execute(command)

    assert [[purge.key for purge in taken.purges] for taken in (first, second)] == [
        KEYS[:2],
        KEYS[2:3],
    ]
    assert (first.due, second.due) == (10, 1)


@pytest.mark.parametrize("on_success", [False, True], ids=["entries", "staged"])
def test_a_list_with_staged_writes_that_is_too_large_to_merge_is_refused(
    store: Store, scope: StoreScope, on_success: bool
) -> None:
    writer = TaskWriter(TASK, store.execute(c.StartAttempt(TASK)))
    for key in KEYS:
        store.execute(c.Set(ORDERS, key, f'"{"x" * 1500}"', writer, on_success=on_success))
    store.execute(c.Set(ORDERS, "small", "1", writer, on_success=True))
    command = c.List(ORDERS, limit=10, reader=writer, max_size=2000)

    with pytest.raises(ValueTooLarge, match="exceed 16,000 characters"):
        store.execute(command)
    page = store.execute(msgspec.structs.replace(command, max_size=5000))

    assert (keys(page.found), page.total, page.more) == (KEYS[:4], 21, True)
