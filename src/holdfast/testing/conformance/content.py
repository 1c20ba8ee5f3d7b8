"""Keys and values of all kinds, which must be stored exactly."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from holdfast import commands as c
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.testing.client import Client
from holdfast.testing.conformance.fixtures import ANN, StoreFixtures

KEYS = {
    "slashes": "a/b//c/../d",
    "leading slash": "/a",
    "quotes": 'it\'s "quoted" `here`',
    "backslashes": "a\\b\\\\c\\n",
    "spaces": " a  b ",
    "percent signs": "100%s %(x)s %%",
    "underscores": "a_b",
    "colons and braces": ":key {key} $1 ?",
    "SQL": "'; DROP TABLE hf_task_entry; --",
    "URL": "https://example.com/?a=1&b=%2F#c",
    "accents": "caf\u00e9",
    "combining accents": "cafe\u0301",
    "sharp s": "stra\u00dfe",
    "Chinese": "\u6570\u636e",
    "right to left": "\u05e9\u05dc\u05d5\u05dd",
    "emoji": "\U0001f680 \U0001f468\u200d\U0001f469\u200d\U0001f467",
    "no-break space": "a\u00a0b",
    "number": "0012",
    "dot": ".",
    "longest": "k" * 512,
    "longest in 4-byte emoji": "\U0001f680" * 512,
}

ALIKE = [
    *("A", "a", "a ", " a", "\u00e4", "a\u0308"),
    *("ss", "\u00df", "i", "I", "\u0131", "\u0130"),
    *("1", "01", "k" * 511 + "a", "k" * 511 + "b"),
]

VALUES: dict[str, Any] = {
    "text": "app_1",
    "empty text": "",
    "text with quotes": 'it\'s "quoted" \\ `here`',
    "text with a NUL": "a\x00b",
    "text with control characters": "\x01\t\r\n\x1f\x7f",
    "text with percent signs": "100% %s %(a)s",
    "accents": "caf\u00e9 cafe\u0301",
    "emoji": "\U0001f680",
    "line separators": "\u2028\u2029\ufeff\uffff",
    "zero": 0,
    "false": False,
    "true": True,
    "largest integer": 2**63 - 1,
    "smallest integer": -(2**63),
    "float of many digits": 0.1 + 0.2,
    "large float": 1.7976931348623157e308,
    "small float": 5e-324,
    "whole float": 3.0,
    "empty list": [],
    "empty dict": {},
    "nested": {"a": [1, {"b": [None, True, "x", 1.5]}], "": {"\U0001f680": []}},
    "like a reference": {"__holdfast_ref__": "s3://bucket/key"},
    "like an escaped value": {"__holdfast_value__": {"__holdfast_ref__": "s3://bucket/key"}},
    "deep": [[[[[[[[[["x"]]]]]]]]]],
    "over the limit of a person's value": "x" * 70_000,
    "one megabyte": "\u00e9" * 500_000,
}

SCOPES = {
    "quotes": 'it\'s "quoted" `here`',
    "slashes": "a/b",
    "percent signs": "100%s",
    "backslash": "a\\b",
    "emoji": "\U0001f680",
    "a run of the scheduler": "scheduled__2026-01-01T00:00:00+00:00",
}


class Content(StoreFixtures):
    def test_a_key_is_just_a_key(self, do: Client, scope: StoreScope) -> None:
        values = {key: f'"{name}"' for name, key in KEYS.items()}
        for key, value in values.items():
            do(c.Set(scope, key, value, ANN))
        kept = {key: do(c.Get(scope, key)) for key in values}

        for key in values:
            do(c.Delete(scope, key, ANN))

        assert kept == values
        assert {do(c.Get(scope, key)) for key in values} == {None}

    def test_a_key_that_needs_quoting_is_listed_and_found_by_prefix(
        self, do: Client, scope: StoreScope
    ) -> None:
        do(c.SetMany(scope, tuple((key, "1") for key in KEYS.values()), ANN))

        listed = [each.entry.key for each in do(c.List(scope)).found]
        found = [do(c.List(scope, prefix=key)).found[0].entry.key for key in KEYS.values()]

        assert listed == sorted(KEYS.values())
        assert found == list(KEYS.values())

    def test_keys_that_look_alike_are_different_keys(self, do: Client, scope: StoreScope) -> None:
        values = {key: str(number) for number, key in enumerate(ALIKE)}
        for key, value in values.items():
            do(c.Set(scope, key, value, ANN))

        assert {key: do(c.Get(scope, key)) for key in values} == values

    def test_a_value_is_returned_unchanged(self, accessor: Any) -> None:
        for name, value in VALUES.items():
            accessor.set(name, value)

        back = {name: accessor.get(name) for name in VALUES}

        assert back == VALUES
        assert [type(value) for value in back.values()] == [type(each) for each in VALUES.values()]

    def test_all_values_are_returned_in_one_list(self, accessor: Any) -> None:
        accessor.set_many(VALUES)

        assert dict(accessor.items()) == VALUES

    def test_a_tuple_is_returned_as_a_list(self, accessor: Any) -> None:
        accessor.set("k", (1, ("a", ())))

        assert accessor.get("k") == [1, ["a", []]]

    def test_the_order_in_a_dict_is_kept(self, accessor: Any) -> None:
        accessor.set("k", {"b": 1, "a": 2})

        assert list(accessor.get("k")) == ["b", "a"]

    def test_a_falsy_value_is_not_absent(self, accessor: Any) -> None:
        accessor.set("k", 0)

        assert accessor.get("k", default=7) == 0

    def test_an_id_is_just_an_id(self, do: Client) -> None:
        scopes = [TaskScope(name, name, name) for name in SCOPES.values()]
        for scope in scopes:
            do(c.RegisterTask(scope))
            do(c.Set(scope, "k", "1", ANN))

        pages = [do(c.List(c.TaskFilter(dag_id=scope.dag_id))) for scope in scopes]

        assert [page.found[0].scope for page in pages] == scopes
        assert [page.total for page in pages] == [1] * len(scopes)

    def test_ids_may_be_as_long_as_their_limits(self, do: Client) -> None:
        scope = TaskScope("d" * 250, "\U0001f680" * 250, "t" * 250, 2**31 - 1)
        do(c.RegisterTask(scope))

        do(c.Set(scope, "k", "1", ANN, do(c.Now()) - timedelta(days=1)))

        assert do(c.TakeExpired(do(c.Now()), 10))[0].scope == scope

    def test_names_and_uris_of_assets_may_be_as_long_as_their_limits(self, do: Client) -> None:
        longest = "\U0001f680" * 1499
        do(c.DeclareAsset(longest + "a", longest + "b"))
        do(c.DeclareAsset(longest + "c", longest + "d"))

        do(c.Set(AssetScope(name=longest + "a"), "k", "1", ANN))

        assert do(c.Get(AssetScope(uri=longest + "b"), "k")) == "1"
        assert do(c.Get(AssetScope(uri=longest + "d"), "k")) is None
