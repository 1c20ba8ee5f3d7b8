"""Bad input: what it gets, and that nothing is written."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from holdfast.accessor import Rules
from holdfast.entry import TaskWriter
from holdfast.errors import HoldfastError
from holdfast.retention import NEVER_EXPIRE
from holdfast.testing.conformance.fixtures import StoreFixtures

NOT_JSON: dict[str, tuple[Any, type[Exception], str]] = {
    "datetime": (datetime(2026, 1, 1, tzinfo=UTC), TypeError, r"value is a datetime[^$]*isoformat"),
    "date": (date(2026, 1, 1), TypeError, r"value is a date[^$]*isoformat"),
    "timedelta": (timedelta(1), TypeError, r"value is a timedelta[^$]*total_seconds"),
    "bytes": (b"x", TypeError, r"value is a bytes[^$]*base64"),
    "set": ({1}, TypeError, r"value is a set[^$]*sorted"),
    "Decimal": (Decimal("1.5"), TypeError, r"value is a Decimal[^$]*str"),
    "UUID": (UUID(int=1), TypeError, r"value is a UUID[^$]*str"),
    "object": (object(), TypeError, r"value is a object"),
    "NaN": (float("nan"), ValueError, r"value is nan"),
    "Infinity": (float("inf"), ValueError, r"value is inf"),
    "-Infinity": (float("-inf"), ValueError, r"value is -inf"),
    "NaN in a list": ([1, [2, float("nan")]], ValueError, r"value\[1\]\[1\] is nan"),
    "Infinity in a dict": ({"a": {"b": float("inf")}}, ValueError, r"value\['a'\]\['b'\] is inf"),
    "datetime in a dict": (
        {"at": [datetime(2026, 1, 1, tzinfo=UTC)]},
        TypeError,
        r"value\['at'\]\[0\] is a datetime",
    ),
    "number as a dict's key": (
        {"a": {1: "x"}},
        TypeError,
        r"value\['a'\] has the key 1 of type int",
    ),
    "None as a dict's key": ({None: "x"}, TypeError, r"value has the key None"),
    "tuple as a dict's key": ({(1, 2): "x"}, TypeError, r"value has the key \(1, 2\)"),
    "lone surrogate": ("a\ud800", ValueError, r"value has a lone surrogate \(U\+D800\) at 1"),
    "lone surrogate in a list": (["\udfff"], ValueError, r"value\[0\] has a lone surrogate"),
    "lone surrogate in a dict's key": ({"\ud800": 1}, ValueError, r"lone surrogate"),
    "integer above 64 bits": (2**63, ValueError, r"value is an integer beyond 64 bits"),
    "integer below 64 bits": (-(2**63) - 1, ValueError, r"value is an integer beyond 64 bits"),
    "large integer in a list": ([10**30], ValueError, r"value\[0\] is an integer beyond 64 bits"),
}

BAD_KEYS: dict[str, tuple[Any, type[Exception], str]] = {
    "empty": ("", ValueError, "empty"),
    "513 characters": ("k" * 513, ValueError, "513 characters; the limit is 512"),
    "NUL": ("a\x00b", ValueError, r"U\+0000 at 1"),
    "line break": ("a\nb", ValueError, r"U\+000A"),
    "tab": ("\t", ValueError, r"U\+0009"),
    "delete": ("a\x7f", ValueError, r"U\+007F"),
    "C1 control": ("a\x85", ValueError, r"U\+0085"),
    "lone surrogate": ("a\ud800", ValueError, r"U\+D800"),
    "number": (7, TypeError, "must be text, not int"),
    "None": (None, TypeError, "must be text, not NoneType"),
    "bytes": (b"k", TypeError, "must be text, not bytes"),
}

BAD_RETENTIONS: dict[str, tuple[Any, type[Exception], str]] = {
    "7": (7, TypeError, r"timedelta\(days=7\)"),
    "0": (0, TypeError, r"timedelta\(days="),
    "1.5": (1.5, TypeError, r"timedelta\(days=1.5\)"),
    "text": ("7d", TypeError, r"timedelta\(days="),
    "datetime": (datetime(2030, 1, 1, tzinfo=UTC), TypeError, r"timedelta\(days="),
    "zero": (timedelta(0), ValueError, "positive"),
    "negative": (timedelta(days=-1), ValueError, "positive"),
    "minimum": (timedelta.min, ValueError, "positive"),
    "overflow": (timedelta(days=365 * 9000), ValueError, "NEVER_EXPIRE"),
    "just under never": (NEVER_EXPIRE - timedelta(microseconds=1), ValueError, "NEVER_EXPIRE"),
}


class Inputs(StoreFixtures):
    def test_none_is_no_value(self, accessor: Any) -> None:
        self._refuses(accessor, ValueError, "None", "set", "k", None)
        self._refuses(accessor, ValueError, "None", "set_many", {"a": 1, "k": None})

    @pytest.mark.parametrize(("value", "error", "says"), NOT_JSON.values(), ids=NOT_JSON)
    def test_a_value_that_is_not_json_is_refused_with_its_path(
        self, accessor: Any, value: Any, error: type[Exception], says: str
    ) -> None:
        self._refuses(accessor, error, says, "set", "k", value)

    def test_set_many_with_one_bad_value_writes_nothing(self, accessor: Any) -> None:
        self._refuses(accessor, TypeError, "set", "set_many", {"a": 1, "b": {2}, "c": 3})

    def test_set_many_with_one_bad_key_writes_nothing(self, accessor: Any) -> None:
        self._refuses(accessor, ValueError, "empty", "set_many", {"a": 1, "": 2})

    @pytest.mark.parametrize("values", [["a"], "ab", 7, None], ids=repr)
    def test_set_many_takes_a_mapping(self, accessor: Any, values: Any) -> None:
        self._refuses(accessor, TypeError, "mapping", "set_many", values)

    @pytest.mark.parametrize(("key", "error", "says"), BAD_KEYS.values(), ids=BAD_KEYS)
    def test_a_bad_key_is_refused(
        self, accessor: Any, key: Any, error: type[Exception], says: str
    ) -> None:
        self._refuses(accessor, error, says, "set", key, 1)
        self._refuses(accessor, error, says, "set_many", {key: 1})
        self._refuses(accessor, error, says, "get", key)
        self._refuses(accessor, error, says, "entry", key)
        self._refuses(accessor, error, says, "delete", key)

    @pytest.mark.parametrize(("key", "error", "says"), BAD_KEYS.values(), ids=BAD_KEYS)
    def test_a_bad_key_of_an_asset_is_refused(
        self, asset_store: Any, key: Any, error: type[Exception], says: str
    ) -> None:
        self._refuses(asset_store, error, says, "advance", key, 1)
        self._refuses(asset_store, error, says, "history", key)
        self._refuses(asset_store, error, says, "rewind", key, version=1)

    @pytest.mark.parametrize(
        ("retention", "error", "says"), BAD_RETENTIONS.values(), ids=BAD_RETENTIONS
    )
    def test_a_bad_retention_is_refused(
        self, task_store: Any, retention: Any, error: type[Exception], says: str
    ) -> None:
        self._refuses(task_store, error, says, "set", "k", 1, retention=retention)
        self._refuses(task_store, error, says, "set_many", {"k": 1}, retention=retention)

    @pytest.mark.parametrize(
        ("version", "error"),
        [(-1, ValueError), ("1", TypeError), (1.0, TypeError), (True, TypeError)],
    )
    def test_a_bad_if_version_is_refused(
        self, accessor: Any, version: Any, error: type[Exception]
    ) -> None:
        self._refuses(accessor, error, "if_version", "set", "k", 1, if_version=version)

    def test_a_rewind_goes_to_one_target(self, asset_store: Any) -> None:
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
        assert accessor.keys() == []
