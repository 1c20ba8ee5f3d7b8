"""Rewind of a watermark: the undone loads, and removal of their data."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from remembered import STARTED, next_number, record, remember

from holdfast import Connection
from holdfast.accessor.asset_store import AssetStore
from holdfast.commands import Rewind, ToVersion
from holdfast.connection import open_store
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import AssetScope
from holdfast.settings import load
from holdfast.store import Store

WHAT_NEXT = (
    "Remove their data, or its rows will be doubled: --remove-data removes directories. "
    "A write that replaces rows needs no removal."
)
REWIND = ("state-store", "rewind", "--asset", "orders", "watermark")


@pytest.fixture
def store() -> Iterator[Store]:
    """Yield the embedded store of the project."""
    with open_store(load()) as store:
        yield store


@pytest.fixture
def orders(store: Store) -> AssetStore:
    return Connection(store).asset_store(name="orders", declare=True)


def loaded(orders: AssetStore, lake: Path, to: int, **more: Any) -> Path:
    """Load up to `to` into a directory of the lake."""
    name = f"load=orders.watermark.{next_number(orders):012}"
    directory = lake / name
    directory.mkdir(parents=True)
    (directory / "part-0.parquet").write_text("rows")
    (directory / "_holdfast.json").write_text(json.dumps({"started_at": STARTED}))
    remember(orders, to, directories=[str(directory)], **more)
    return directory


def test_a_rewind_names_the_loads_that_it_undoes(holdfast, orders, tmp_path):
    first, second, third = (loaded(orders, tmp_path, to) for to in (10, 20, 30))
    orders.set("watermark/load", record(3, 99, kind="backfill", directories=["/lake/backfill"]))

    dry = holdfast(*REWIND, "--version", "1", "--dry-run")
    done = holdfast(*REWIND, "--version", "1")

    assert dry.err.splitlines() == [
        "2 loads would be undone; the next loads load the rows again:",
        "  load=orders.watermark.000000000002, up to 30, 10 rows",
        f"    {third}",
        "  load=orders.watermark.000000000001, up to 20, 10 rows",
        f"    {second}",
        WHAT_NEXT,
        "Would restore version 1 of `watermark` of asset `orders`:",
    ]
    assert done.err.splitlines()[0].startswith("2 loads are undone")
    assert json.loads(done.out)["value"] == 10
    assert all(directory.exists() for directory in (first, second, third))


def test_a_load_that_was_undone_is_not_named_again(holdfast, orders, tmp_path):
    for to in (10, 20, 30):
        loaded(orders, tmp_path, to)
    holdfast(*REWIND, "--version", "2")
    loaded(orders, tmp_path, 40)

    again = json.loads(holdfast(*REWIND, "--version", "1", "--json").out)

    assert [one["to"] for one in again["undone"]] == [40, 20]
    assert again["removed"] == []


def test_the_directories_of_undone_loads_are_removed(holdfast, orders, tmp_path):
    first, second, third = (loaded(orders, tmp_path / "lake", to) for to in (10, 20, 30))
    quarantine = tmp_path / "bad" / third.name
    quarantine.mkdir(parents=True)
    orders.set(
        "watermark/load",
        record(2, 30, directories=[f"file:{third}"], quarantine=f"file://{quarantine}"),
    )

    preview = holdfast(*REWIND, "--version", "1", "--remove-data", "--dry-run")
    assert (preview.status, third.exists()) == (0, True)
    done = holdfast(*REWIND, "--version", "1", "--remove-data", "--yes", "--json")

    removed = json.loads(done.out)["removed"]
    assert removed == [f"file:{third}", f"file://{quarantine}", str(second)]
    assert [path.exists() for path in (first, second, third, quarantine)] == [True] + [False] * 3
    assert orders.get("watermark")["value"] == 10


def test_a_removal_that_was_interrupted_is_finished_by_the_same_command(
    holdfast, store, orders, tmp_path
):
    second = [loaded(orders, tmp_path, to) for to in (10, 20)][1]
    # The state after a kill between the two steps.
    store.execute(Rewind(AssetScope(name="orders"), "watermark", ToVersion(1), ApiWriter("ann")))
    anew = loaded(orders, tmp_path, 20)

    done = holdfast(*REWIND, "--version", "1", "--remove-data", "--yes")
    after = holdfast(*REWIND, "--version", "1", "--remove-data", "--yes")

    assert "1 load was undone by an earlier rewind and left data:" in done.err
    assert not second.exists()
    assert not anew.exists()
    assert after.status == 0
    assert "undone" not in after.err


@pytest.mark.full
def test_a_killed_removal_is_finished_by_the_same_command(orders, program, tmp_path):
    first, *later = (loaded(orders, tmp_path, to) for to in (10, 20, 30, 40))
    for directory in later:
        for number in range(2000):
            (directory / f"part-{number}").touch()
    command = [sys.executable, "-m", "holdfast", *REWIND, "--version", "1", "--remove-data"]

    with subprocess.Popen([*command, "--yes"], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)  # the restored value: the removal is next
        process.kill()
    assert orders.get("watermark")["value"] == 10
    again = program(*REWIND, "--version", "1", "--remove-data", "--yes")

    assert again.status == 0, again
    assert first.exists()
    assert not any(directory.exists() for directory in later)


def test_a_failed_removal_is_an_error_and_can_be_retried(holdfast, orders, tmp_path):
    _, second, third = (loaded(orders, tmp_path, to) for to in (10, 20, 30))
    aside = third.rename(tmp_path / "aside")
    third.symlink_to(aside)

    failed = holdfast(*REWIND, "--version", "1", "--remove-data", "--yes")

    assert failed.status == 1
    assert "1 directory of undone loads could not be removed" in failed.err
    assert str(third) in failed.err.splitlines()[-2]
    assert not second.exists()
    third.unlink()
    aside.rename(third)
    assert holdfast(*REWIND, "--version", "1", "--remove-data", "--yes").status == 0
    assert not third.exists()


@pytest.mark.parametrize("directory", ["lake/all", "load=orders.watermark.000000000000"])
def test_a_directory_that_may_not_belong_to_the_load_is_kept(holdfast, orders, tmp_path, directory):
    place = tmp_path / directory
    place.mkdir(parents=True)
    told = str(place) if "/" in directory else directory
    remember(orders, 10, directories=[told])

    result = holdfast(*REWIND, "--at", "2020-01-01T00:00:00Z", "--remove-data", "--yes")

    assert result.status == 1
    assert place.exists()
    assert orders.get("watermark") is None


@pytest.mark.parametrize("manifest", ['{"started_at": "2026-01-31T05:00:00.000001Z"}', "[]", "{"])
def test_a_directory_saved_by_another_load_is_kept(holdfast, orders, tmp_path, manifest):
    first, second = (loaded(orders, tmp_path, to) for to in (10, 20))
    (first / "_holdfast.json").write_text(manifest)
    (second / "_holdfast.json").unlink()

    result = holdfast(*REWIND, "--at", "2020-01-01T00:00:00Z", "--remove-data", "--yes")

    assert result.status == 1
    assert f"{first}: this load did not write the data in it" in result.err
    assert [len(list(place.glob("part-*"))) for place in (first, second)] == [1, 1]


def test_loads_without_a_directory_or_a_record_are_reported(holdfast, orders):
    for to in (10, 15, 20):
        remember(orders, to, rows=None, **{"from": to - 5})
    orders.delete("watermark/load")
    orders.set("watermark/load", record(1, 15, rows=None, **{"from": 10}))

    told = holdfast(*REWIND, "--at", "2020-01-01T00:00:00Z").err.splitlines()

    assert "  load=orders.watermark.000000000001, after 10 up to 15" in told
    assert "    no directory is recorded" in told


def test_loads_without_a_record_are_counted(holdfast, orders):
    for number in range(3):
        orders.set("watermark", {"value": number, "load": {"number": number}})

    told = holdfast(*REWIND, "--version", "1").err.splitlines()

    assert told[0].startswith("2 more loads are undone without a record")


def test_a_rewind_to_an_undone_load_warns(holdfast, orders):
    for to in (10, 20, 30):
        remember(orders, to)
    holdfast(*REWIND, "--version", "1")

    told = holdfast(*REWIND, "--version", "2", "--dry-run").err

    assert told.startswith("1 load that an earlier rewind has undone would count again.")
    assert "up to 20" in told
    assert "up to 30" not in told


def test_data_is_not_removed_without_confirmation(holdfast, orders, tmp_path):
    first = loaded(orders, tmp_path, 10)

    result = holdfast(*REWIND, "--at", "2020-01-01T00:00:00Z", "--remove-data")

    assert result.status == 2
    assert "add --yes" in result.err
    assert first.exists()
    assert orders.get("watermark")["value"] == 10
