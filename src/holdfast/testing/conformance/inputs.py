"""Invalid input: errors without any write."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from holdfast.accessor.binding import Rules
from holdfast.errors import HoldfastError
from holdfast.model.entry import TaskWriter
from holdfast.portable.retention import NEVER_EXPIRE
from holdfast.testing.conformance.fixtures import StoreFixtures

NOT_JSON: list[tuple[Any, type[Exception], str]] = [
    (datetime(2026, 1, 1, tzinfo=UTC), TypeError, r"value is a datetime[^$]*isoformat"),
    (date(2026, 1, 1), TypeError, r"value is a date[^$]*isoformat"),
    (timedelta(1), TypeError, r"value is a timedelta[^$]*total_seconds"),
    (b"x", TypeError, r"value is a bytes[^$]*base64"),
    ({1}, TypeError, r"value is a set[^$]*sorted"),
    (Decimal("1.5"), TypeError, r"value is a Decimal[^$]*str"),
    (UUID(int=1), TypeError, r"value is a UUID[^$]*str"),
    (object(), TypeError, r"value is a object"),
    (float("nan"), ValueError, r"value is nan"),
    (float("inf"), ValueError, r"value is inf"),
    (float("-inf"), ValueError, r"value is -inf"),
    ([1, [2, float("nan")]], ValueError, r"value\[1\]\[1\] is nan"),
    ({"a": {"b": float("inf")}}, ValueError, r"value\['a'\]\['b'\] is inf"),
    (
        {"at": [datetime(2026, 1, 1, tzinfo=UTC)]},
        TypeError,
        r"value\['at'\]\[0\] is a datetime",
    ),
    (
        {"a": {1: "x"}},
        TypeError,
        r"value\['a'\] has the key 1 of type int",
    ),
    ({None: "x"}, TypeError, r"value has the key None"),
    ({(1, 2): "x"}, TypeError, r"value has the key \(1, 2\)"),
    ("a\ud800", ValueError, r"value has a lone surrogate \(U\+D800\) at 1"),
    (["\udfff"], ValueError, r"value\[0\] has a lone surrogate"),
    ({"\ud800": 1}, ValueError, r"lone surrogate"),
    (2**63, ValueError, r"value is an integer beyond 64 bits"),
    (-(2**63) - 1, ValueError, r"value is an integer beyond 64 bits"),
    ([10**30], ValueError, r"value\[0\] is an integer beyond 64 bits"),
]

BAD_KEYS: list[tuple[Any, type[Exception], str]] = [
    ("", ValueError, "empty"),
    ("k" * 513, ValueError, "513 characters; the limit is 512"),
    ("a\x00b", ValueError, r"U\+0000 at 1"),
    ("a\nb", ValueError, r"U\+000A"),
    ("\t", ValueError, r"U\+0009"),
    ("a\x7f", ValueError, r"U\+007F"),
    ("a\x85", ValueError, r"U\+0085"),
    ("a\ud800", ValueError, r"U\+D800"),
    (7, TypeError, "must be text, not int"),
    (None, TypeError, "must be text, not NoneType"),
    (b"k", TypeError, "must be text, not bytes"),
]

BAD_RETENTIONS: list[tuple[Any, type[Exception], str]] = [
    (7, TypeError, r"timedelta\(days=7\)"),
    (0, TypeError, r"timedelta\(days="),
    (1.5, TypeError, r"timedelta\(days=1.5\)"),
    ("7d", TypeError, r"timedelta\(days="),
    (datetime(2030, 1, 1, tzinfo=UTC), TypeError, r"timedelta\(days="),
    (timedelta(0), ValueError, "positive"),
    (timedelta(days=-1), ValueError, "positive"),
    (timedelta.min, ValueError, "positive"),
    (timedelta(days=365 * 9000), ValueError, "NEVER_EXPIRE"),
    (NEVER_EXPIRE - timedelta(microseconds=1), ValueError, "NEVER_EXPIRE"),
]


class Inputs(StoreFixtures):
    def test_none_is_not_a_value(self, accessor: Any) -> None:
        self._refuses(accessor, ValueError, "None", "set", "k", None)
        self._refuses(accessor, ValueError, "None", "set_many", {"a": 1, "k": None})

    def test_a_value_that_is_not_json_is_refused_with_its_path(self, accessor: Any) -> None:
        for value, error, says in NOT_JSON:
            self._refuses(accessor, error, says, "set", "k", value)

    def test_an_error_names_the_scope_of_the_value(self, task_store: Any, asset_store: Any) -> None:
        self._refuses(task_store, TypeError, "`k` of task sales/monday/load", "set", "k", {1})
        self._refuses(asset_store, TypeError, "`k` of asset `orders`", "set", "k", {1})

    def test_set_many_with_one_bad_value_writes_nothing(self, accessor: Any) -> None:
        self._refuses(accessor, TypeError, "set", "set_many", {"a": 1, "b": {2}, "c": 3})

    def test_set_many_with_one_bad_key_writes_nothing(self, accessor: Any) -> None:
        self._refuses(accessor, ValueError, "empty", "set_many", {"a": 1, "": 2})

    def test_set_many_takes_a_mapping(self, accessor: Any) -> None:
        for values in (["a"], "ab", 7, None):
            self._refuses(accessor, TypeError, "mapping", "set_many", values)

    def test_a_bad_key_is_refused(self, accessor: Any) -> None:
        for key, error, says in BAD_KEYS:
            self._refuses(accessor, error, says, "set", key, 1)
            self._refuses(accessor, error, says, "set_many", {key: 1})
            self._refuses(accessor, error, says, "get", key)
            self._refuses(accessor, error, says, "entry", key)
            self._refuses(accessor, error, says, "delete", key)

    def test_a_bad_key_of_an_asset_is_refused(self, asset_store: Any) -> None:
        for key, error, says in BAD_KEYS:
            self._refuses(asset_store, error, says, "advance", key, 1)
            self._refuses(asset_store, error, says, "history", key)
            self._refuses(asset_store, error, says, "rewind", key, version=1)

    def test_a_bad_retention_is_refused(self, task_store: Any) -> None:
        for retention, error, says in BAD_RETENTIONS:
            self._refuses(task_store, error, says, "set", "k", 1, retention=retention)
            self._refuses(task_store, error, says, "set_many", {"k": 1}, retention=retention)

    def test_a_bad_if_version_is_refused(self, accessor: Any) -> None:
        self._refuses(accessor, ValueError, "if_version", "set", "k", 1, if_version=-1)
        for version in ("1", 1.0, True):
            self._refuses(accessor, TypeError, "if_version", "set", "k", 1, if_version=version)

    def test_a_rewind_takes_one_target(self, asset_store: Any) -> None:
        self._refuses(asset_store, ValueError, "one target", "rewind", "k")
        self._refuses(
            asset_store, ValueError, "one target", "rewind", "k", version=1, run_id="monday"
        )

    def test_a_rewind_to_a_time_without_zone_is_refused(self, asset_store: Any) -> None:
        naive = datetime(2026, 1, 1)  # noqa: DTZ001
        self._refuses(asset_store, ValueError, "time zone", "rewind", "k", at=naive)

    def test_staging_without_an_attempt_is_refused(
        self, open_asset_store: Callable[..., Any], task: Any
    ) -> None:
        for store in (open_asset_store(), open_asset_store(TaskWriter(task))):
            self._refuses(store, ValueError, "attempt", "set", "k", 1, on_success=True)
            self._refuses(store, ValueError, "attempt", "advance", "k", 1, on_success=True)

    def test_none_cannot_advance(self, asset_store: Any) -> None:
        self._refuses(asset_store, ValueError, "None", "advance", "k", None)

    def test_a_large_value_of_a_task_is_written_with_a_warning(
        self,
        open_task_store: Callable[..., Any],
        task: Any,
        caplog: pytest.LogCaptureFixture,
    ) -> None:
        task_store = open_task_store(TaskWriter(task), Rules(max_value_bytes=100))

        with caplog.at_level(logging.WARNING, logger="holdfast"):
            task_store.set("fits", "x" * 98)
            assert caplog.messages == []
            task_store.set("large", "x" * 99)

        (message,) = caplog.messages
        assert "`large` of task sales/monday/load" in message
        assert "101 bytes" in message
        assert task_store.get("large") == "x" * 99

    def _refuses(
        self,
        accessor: Any,
        error: type[Exception],
        says: str,
        method: str,
        *args: Any,
        **options: Any,
    ) -> None:
        with pytest.raises(error, match=says) as refused:
            getattr(accessor, method)(*args, **options)

        assert isinstance(refused.value, HoldfastError)
        assert [accessor.get(key) for key in "abck"] == [None] * 4
