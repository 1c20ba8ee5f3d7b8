"""JSON documents in commands, and names of events."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from holdfast import commands as c
from holdfast.errors import InvalidInput
from holdfast.model.entry import TaskWriter
from holdfast.model.run import EmittedEvent, Watch
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.model.value import MAX_DEPTH, encode
from holdfast.wire.codec import JSON, MSGPACK

WRITER = TaskWriter(TaskScope("sales", "monday", "load"), 1)
DEEP = '{"a":' + "[" * 400 + "]" * 400 + "}"
NO_DOCUMENTS = ["", "{", "nan", '{"a":1e999}', '{"a":123456789012345678901}', DEEP]
NO_OBJECTS = [*NO_DOCUMENTS, "[1]", "null", '"text"', "1"]
NO_NAMES = ["", "a\nb", "x" * 1501]


def in_a_list(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize("extra", NO_OBJECTS)
def test_the_extra_of_an_event_is_a_json_object(extra: str) -> None:
    with pytest.raises(InvalidInput, match="extra of the event of asset `orders`"):
        EmittedEvent("orders", "s3://orders", extra)


@pytest.mark.parametrize("name", NO_NAMES)
def test_an_event_is_named_as_an_asset_is(name: str) -> None:
    with pytest.raises(InvalidInput, match="asset name"):
        EmittedEvent(name, "s3://orders")
    with pytest.raises(InvalidInput, match="asset URI"):
        EmittedEvent("orders", name)
    with pytest.raises(InvalidInput, match="asset alias"):
        EmittedEvent("orders", "s3://orders", aliases=("daily", name))


@pytest.mark.parametrize("conf", NO_OBJECTS)
def test_the_conf_of_a_run_is_a_json_object(conf: str) -> None:
    with pytest.raises(InvalidInput, match="conf of run sales/monday"):
        c.CreateRun(dag_id="sales", run_id="monday", conf=conf)


@pytest.mark.parametrize("value", NO_DOCUMENTS)
def test_a_result_is_json(value: str) -> None:
    with pytest.raises(InvalidInput, match="the result `k` of task sales/monday/load"):
        c.PutResult(WRITER, "k", value)


@pytest.mark.parametrize(
    "value", [None, 0, "Ünïcödé 🚀", [], {"a": [1.5, True]}, -(2**63), {"__holdfast_ref__": "x"}]
)
def test_every_value_may_be_a_result(value: Any) -> None:
    c.PutResult(WRITER, "k", "null" if value is None else encode(value))


def test_a_result_may_be_nested_as_deeply_as_a_stored_value() -> None:
    c.PutResult(WRITER, "k", encode(in_a_list(MAX_DEPTH)))

    with pytest.raises(InvalidInput, match="nested deeper"):
        c.PutResult(WRITER, "k", msgspec.json.encode(in_a_list(MAX_DEPTH + 1)).decode())


@pytest.mark.parametrize("wire", [JSON, MSGPACK], ids=["json", "msgpack"])
def test_an_invalid_command_over_the_wire_has_the_same_error(wire: Any) -> None:
    watch = Watch(AssetScope(name="orders"), "files", 1)
    emit = msgspec.to_builtins(c.Emit(watch, (), EmittedEvent("orders", "s3://orders")))
    emit["event"]["extra"] = DEEP

    with pytest.raises(InvalidInput, match="extra of the event of asset `orders` is nested"):
        wire.decode_command(wire.encode(emit))
