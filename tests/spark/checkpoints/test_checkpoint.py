"""Checkpointed loops over items."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path, PurePosixPath
from textwrap import dedent
from typing import Any, TypeVar

import pytest
from attempt import scope_of, store_of

import holdfast
from holdfast.accessor.asset_store import AssetStore
from holdfast.accessor.task_store import ExternalTaskStore, TaskStore
from holdfast.commands import Command, Set
from holdfast.errors import InvalidInput, InvalidType, StaleAttempt
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.scope import AssetScope
from holdfast.spark.checkpoints.checkpoint import PER_ENTRY, checkpointed
from holdfast.spark.checkpoints.item import LONGEST, directory_of, name_of
from holdfast.testing.memory_store import MemoryStore

A = TypeVar("A")


class FencedStore(MemoryStore):
    """Store that refuses writes, as for a superseded attempt."""

    def execute(self, command: Command[A]) -> A:
        if isinstance(command, Set):
            raise StaleAttempt("a newer attempt has started")
        return super().execute(command)


@pytest.fixture
def store() -> TaskStore:
    return store_of("work")


def do(items: Any, store: TaskStore, **options: Any) -> list[Any]:
    return list(checkpointed(items, store, key="done", **options))


def do_until(last: Any, items: Any, store: TaskStore) -> None:
    """Run an attempt that fails at that item."""
    for item in checkpointed(items, store, key="done"):
        if item == last:
            raise RuntimeError(item)


def test_all_items_are_done_in_order(store: TaskStore) -> None:
    assert do(["b", "a", "c"], store) == ["b", "a", "c"]


def test_the_next_attempt_does_the_rest(store: TaskStore) -> None:
    with pytest.raises(RuntimeError):
        do_until(3, range(5), store)

    assert do(range(5), store) == [3, 4]
    assert do(range(5), store) == []


def test_an_item_in_which_the_loop_was_left_is_not_recorded(store: TaskStore) -> None:
    for item in checkpointed(list("abc"), store, key="done"):
        if item == "b":
            break

    assert do(list("abc"), store) == ["b", "c"]


def test_only_the_new_items_of_a_changed_list_are_done(
    store: TaskStore, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "holdfast")
    do(["a", "b", "c", "d"], store)

    assert do(["x", "c", "a", "y"], store) == ["x", "y"]
    [said] = caplog.messages
    assert said == (
        "done: skipping 2 of 4 items, completed by an earlier attempt; "
        "2 other records match no item"
    )


def test_ten_thousand_items_need_few_entries_below_the_limit(store: TaskStore) -> None:
    items = [f"s3://lake/raw/orders/part-{number:05}.csv" for number in range(10_000)]
    do_and_fail = checkpointed(items, store, key="done")
    for _ in range(7001):
        next(do_and_fail)
    do_and_fail.close()

    assert do(items, store) == items[7000:]
    assert do(items, store) == []
    assert [key for key, _ in store.items()] == ["done/0", "done/1", "done/2", "done/3"]
    assert all(len(value) < 65_535 for _, value in store.items())


def test_a_full_entry_is_followed_by_the_next(store: TaskStore) -> None:
    do(range(PER_ENTRY), store)
    do(range(PER_ENTRY + 1), store)

    assert do(range(PER_ENTRY + 2), store) == [PER_ENTRY + 1]
    assert [key for key, _ in store.items()] == ["done/0", "done/1"]


def test_finished_items_are_recorded_within_two_seconds(
    store: TaskStore,
) -> None:
    loop = checkpointed(list("abc"), store, key="done")
    next(loop)
    next(loop)
    time.sleep(1.5)

    assert do(list("abc"), store) == ["b", "c"]
    loop.close()


def test_a_zombie_ends_at_its_next_item(caplog: pytest.LogCaptureFixture) -> None:
    store = fenced_store()
    loop = checkpointed(list("abcd"), store, key="done")
    next(loop)
    next(loop)
    time.sleep(1.5)

    with pytest.raises(StaleAttempt):
        next(loop)
    assert "the last items could not be recorded: a newer attempt has started" in caplog.text


def test_a_loop_that_cannot_be_recorded_does_not_end_well() -> None:
    with pytest.raises(StaleAttempt):
        do(list("abc"), fenced_store())


def fenced_store() -> TaskStore:
    return ExternalTaskStore(FencedStore(), scope_of("zombie"), TaskWriter(scope_of("zombie")))


def test_loops_with_different_keys_are_independent(store: TaskStore) -> None:
    do(list("ab"), store)

    assert list(checkpointed(list("ab"), store, key="other")) == ["a", "b"]


def test_records_have_the_given_retention(store: TaskStore) -> None:
    do(list("a"), store, retention=timedelta(days=90))

    entry = store.entry("done/0")
    assert entry is not None
    assert entry.expires_at is not None
    assert entry.expires_at - entry.updated_at > timedelta(days=89)


@pytest.mark.parametrize(
    ("item", "name"),
    [
        ("a.csv", "a.csv"),
        (PurePosixPath("/raw/a.csv"), "/raw/a.csv"),
        (date(2026, 1, 31), "2026-01-31"),
        (datetime(2026, 1, 31, 3, tzinfo=UTC), "2026-01-31T03:00:00Z"),
        (17, "17"),
        (("DE", 2026), '["DE",2026]'),
        ({"b": 1, "a": [2]}, '{"a":[2],"b":1}'),
    ],
)
def test_items_have_stable_names(item: Any, name: str) -> None:
    assert name_of(item) == name


def test_items_of_other_types_are_named_by_a_function(store: TaskStore) -> None:
    items = [object(), object()]

    assert do(items, store, name=lambda item: f"item {items.index(item)}") == items
    with pytest.raises(InvalidType, match="no stable name\nhint: pass name="):
        do(items, store)


@pytest.mark.parametrize(
    ("items", "message"),
    [
        (["a", "b", "a"], "two items have the name 'a': 'a' and 'a'"),
        ([1, "1"], "two items have the name '1': 1 and '1'"),
        ([""], "the name of '' is empty"),
    ],
)
def test_items_with_the_same_name_are_refused(
    store: TaskStore, items: list[Any], message: str
) -> None:
    with pytest.raises(InvalidInput, match=message):
        do(items, store)


def test_a_name_that_is_not_text_is_refused(store: TaskStore) -> None:
    with pytest.raises(InvalidType, match="the name of 'a' must be text, not int"):
        do(["a"], store, name=lambda item: 1)


def test_a_key_that_holds_something_else_is_refused(store: TaskStore) -> None:
    store.set("done/0", {"mine": 1})

    with pytest.raises(InvalidInput, match="`done/0` of the task store is not a record"):
        do(list("ab"), store)


def test_only_a_task_store_records_work() -> None:
    assets = AssetStore(MemoryStore(), AssetScope(name="orders"), ApiWriter("me"))

    with pytest.raises(InvalidType, match="recorded in a task store, not in AssetStore"):
        do(list("ab"), assets)  # type: ignore[arg-type]


NAMES = ["a b", "a/b", "a%2Fb", "s3://x/y=1", "ü", "*", "..", "l" * 300, "l" * 301, "A"]


def test_directories_are_readable_and_of_one_item_only() -> None:
    directories = [directory_of(name) for name in NAMES]

    assert directories[:2] == ["chunk=a%20b", "chunk=a%2Fb"]
    assert len(set(directories)) == len(NAMES)
    assert all(len(directory) <= LONGEST + 6 for directory in directories)
    assert directory_of(directories[-3][6:]) != directories[-3]


SCRIPT = """
    import os, signal, sys, time
    import holdfast
    from holdfast.spark.checkpoints.checkpoint import checkpointed

    with holdfast.connect(sys.argv[1]) as connection:
        with connection.task_store("d", "r", "t").attempt() as attempt:
            for item in checkpointed(range(30), attempt.task_store, key="done"):
                with open("notes", "a") as notes:
                    print(item, file=notes)
                time.sleep(0.1)
                if item == 20 and attempt.number == 1:
                    os.kill(os.getpid(), signal.SIGKILL)
    """


@pytest.fixture
def killed_once(tmp_path: Path) -> Iterator[Path]:
    """Yield the directory of a script that was killed at item 20, and run again."""
    url = f"sqlite:///{tmp_path}/holdfast.db"
    (tmp_path / "script.py").write_text(dedent(SCRIPT))
    command = [sys.executable, "script.py", url]
    first = subprocess.run(command, cwd=tmp_path, timeout=60, check=False)
    assert first.returncode == -signal.SIGKILL
    subprocess.run(command, cwd=tmp_path, timeout=60, check=True)
    yield tmp_path
    with holdfast.connect(url) as connection:
        assert connection.task_store("d", "r", "t").keys() == ["done/0"]


@pytest.mark.full
def test_after_a_kill_only_the_last_second_is_done_again(killed_once: Path) -> None:
    done = [int(line) for line in (killed_once / "notes").read_text().split()]

    again = done[21]
    assert done == [*range(21), *range(again, 30)]
    assert 5 <= again <= 20
