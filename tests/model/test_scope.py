"""Scopes: validation and equality."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import msgspec
import pytest

from holdfast.errors import HoldfastError
from holdfast.model.scope import AssetScope, TaskScope

TASK = TaskScope("sales", "monday", "load", 3)


def test_a_task_is_not_mapped_by_default() -> None:
    assert TaskScope("sales", "monday", "load").map_index == -1


def test_equal_fields_are_equal_scopes() -> None:
    assert TaskScope("sales", "monday", "load", 3) == TASK
    assert {TASK: 1}[TaskScope("sales", "monday", "load", 3)] == 1
    assert AssetScope(name="orders") == AssetScope(name="orders")


@pytest.mark.parametrize("scope", [TASK, AssetScope(name="orders")], ids=str)
def test_a_scope_cannot_be_changed(scope: Any) -> None:
    with pytest.raises(AttributeError):
        scope.name = "other"


def test_a_scope_reads_well_in_messages() -> None:
    assert str(TASK) == "task sales/monday/load[3]"
    assert str(TaskScope("sales", "monday", "load")) == "task sales/monday/load"
    assert str(AssetScope(asset_id=7, name="orders", uri="s3://orders")) == "asset `orders`"
    assert str(AssetScope(uri="s3://orders")) == "asset `s3://orders`"
    assert str(AssetScope(asset_id=7)) == "asset `7`"


def test_ti_id_is_the_same_in_every_process() -> None:
    program = "from holdfast.model.scope import TaskScope; print(TaskScope('d', 'r', 't', 3).ti_id)"
    other = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)

    assert other.stdout.decode().strip() == str(TaskScope("d", "r", "t", 3).ti_id)
    assert str(TaskScope("d", "r", "t", 3).ti_id) == "05e0edde-905e-5309-aba1-3242239bacd2"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (TaskScope("a", "b", "c"), TaskScope("a", "b", "c", 0)),
        (TaskScope("a", "b", "c", 1), TaskScope("a", "b", "c", 11)),
        (TaskScope("a/b", "c", "d"), TaskScope("a", "b/c", "d")),
        (TaskScope('a","b', "c", "d"), TaskScope("a", 'b","c', "d")),
        (TaskScope("a", "b", "c"), TaskScope("A", "b", "c")),
    ],
)
def test_different_scopes_have_different_ti_ids(one: TaskScope, other: TaskScope) -> None:
    assert one.ti_id != other.ti_id


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        (("", "r", "t"), ValueError, "dag_id is empty"),
        (("d", "", "t"), ValueError, "run_id is empty"),
        (("d", "r", ""), ValueError, "task_id is empty"),
        (("d" * 251, "r", "t"), ValueError, "dag_id has 251 characters; the limit is 250"),
        (("d", "r\n", "t"), ValueError, r"run_id has the control character U\+000A at 1"),
        (("d", "r", "\ud800"), ValueError, r"task_id has the lone surrogate U\+D800"),
        ((7, "r", "t"), TypeError, "dag_id must be text, not int"),
        (("d", None, "t"), TypeError, "run_id must be text, not NoneType"),
        (("d", "r", "t", -2), ValueError, "map_index is -2"),
        (("d", "r", "t", 2**31), ValueError, "map_index is 2147483648"),
        (("d", "r", "t", "0"), TypeError, "map_index must be an integer"),
        (("d", "r", "t", True), TypeError, "map_index must be an integer"),
    ],
)
def test_an_invalid_task_scope_is_refused(
    fields: tuple[Any, ...], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says) as refused:
        TaskScope(*fields)

    assert isinstance(refused.value, HoldfastError)
    assert refused.value.hint


@pytest.mark.parametrize(
    ("fields", "error", "says"),
    [
        ({}, ValueError, "AssetScope is empty"),
        ({"name": ""}, ValueError, "asset name is empty"),
        ({"uri": ""}, ValueError, "asset URI is empty"),
        ({"name": "n" * 1501}, ValueError, "asset name has 1501 characters; the limit is 1500"),
        ({"uri": "u" * 1501}, ValueError, "asset URI has 1501 characters; the limit is 1500"),
        ({"name": "a\x00"}, ValueError, r"asset name has the control character U\+0000"),
        ({"name": 7}, TypeError, "asset name must be text, not int"),
        ({"asset_id": "7"}, TypeError, "asset_id must be an integer"),
        ({"asset_id": True}, TypeError, "asset_id must be an integer"),
    ],
)
def test_an_invalid_asset_is_refused(
    fields: dict[str, Any], error: type[Exception], says: str
) -> None:
    with pytest.raises(error, match=says) as refused:
        AssetScope(**fields)

    assert isinstance(refused.value, HoldfastError)
    assert refused.value.hint


def test_ids_may_be_as_long_as_their_limits() -> None:
    assert TaskScope("d" * 250, "r" * 250, "t" * 250, 2**31 - 1).dag_id == "d" * 250
    assert AssetScope(name="\U0001f680" * 1500).name == "\U0001f680" * 1500


@pytest.mark.parametrize(
    "scope", [TASK, AssetScope(name="orders"), AssetScope(uri="s3://o")], ids=str
)
def test_a_scope_round_trips_through_json(scope: TaskScope | AssetScope) -> None:
    text = msgspec.json.encode(scope)

    assert msgspec.json.decode(text, type=TaskScope | AssetScope) == scope


def test_a_scope_with_another_field_is_a_new_one_with_an_id_of_its_own() -> None:
    assert TASK.ti_id

    other = msgspec.structs.replace(TASK, map_index=4)

    assert other == TaskScope("sales", "monday", "load", 4)
    assert other.ti_id == TaskScope("sales", "monday", "load", 4).ti_id
    assert msgspec.structs.replace(AssetScope(name="a"), uri="u") == AssetScope(name="a", uri="u")
    with pytest.raises(HoldfastError):
        msgspec.structs.replace(TASK, task_id="")
