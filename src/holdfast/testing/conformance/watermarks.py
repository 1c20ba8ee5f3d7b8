"""`advance`: the larger of the current and the given value."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from typing import Any

import pytest

from holdfast import commands as c
from holdfast.commands import Advance, Get, GetEntry
from holdfast.errors import HoldfastError
from holdfast.model.entry import WatcherWriter
from holdfast.model.scope import AssetScope
from holdfast.testing.client import Client
from holdfast.testing.conformance.fixtures import ANN, StoreFixtures

NUMBERS: list[tuple[float, float]] = [
    (-5, 3),
    (9, 10),
    (1, 1.5),
    (1.5, 2),
    (2**53, 2**53 + 1),
    (2**63 - 2, 2**63 - 1),
    (-(2**63), 0),
    (0.1, 0.1 + 2**-54),
    (1e308, 1.1e308),
]

STRINGS = [
    ("10", "9"),
    ("", "a"),
    ("a", "a "),
    ("B", "a"),
    ("Z", "\u00c4"),
    ("\uffee", "\U0001f680"),
    ("2026-01-01", "2026-01-01T00:00"),
]

OF_TWO_TYPES = [
    (1, "2"),
    ("1", 2),
    (1.5, "x"),
    (True, 2),
    (False, "x"),
    ([1], 2),
    ({"a": 1}, "x"),
]


class Watermarks(StoreFixtures):
    def test_a_watermark_starts_at_its_first_advance(self, asset_store: Any) -> None:
        assert asset_store.advance("watermark", "2026-01-01") == "2026-01-01"
        assert asset_store.get("watermark") == "2026-01-01"

    def test_a_watermark_moves_forward(self, asset_store: Any) -> None:
        asset_store.advance("watermark", 1)

        assert asset_store.advance("watermark", 2) == 2
        assert asset_store.get("watermark") == 2

    def test_a_watermark_never_moves_back(self, asset_store: Any) -> None:
        asset_store.advance("watermark", 2)

        assert asset_store.advance("watermark", 1) == 2
        assert asset_store.get("watermark") == 2

    def test_the_order_of_writers_does_not_matter(self, asset_store: Any) -> None:
        for order in permutations([1, 2, 3]):
            standing = [asset_store.advance(f"after {order}", value) for value in order]
            assert standing[-1] == 3

        assert [value for _, value in asset_store.items()] == [3] * 6

    def test_an_advance_without_effect_creates_no_version(self, asset_store: Any) -> None:
        asset_store.advance("watermark", 2)
        before = asset_store.entry("watermark")

        asset_store.advance("watermark", 2)
        asset_store.advance("watermark", 1)

        assert asset_store.entry("watermark") == before
        assert len(asset_store.history("watermark")) == 1

    def test_an_advance_creates_a_version_with_its_writer(
        self, do: Client, asset: AssetScope
    ) -> None:
        before = do(c.Set(asset, "watermark", "1", WatcherWriter()))

        do(Advance(asset, "watermark", "2", ANN))

        entry = do(GetEntry(asset, "watermark"))
        assert entry is not None
        assert entry.version > before
        assert entry.writer == ANN
        assert [step.value for step in do(c.History(asset, "watermark"))] == ["2", "1"]

    def test_numbers_compare_as_numbers(self, asset_store: Any) -> None:
        self._advance_to_and_fro(asset_store, NUMBERS)

        assert [asset_store.get(str(pair)) for pair in NUMBERS] == [pair[1] for pair in NUMBERS]

    def test_strings_compare_by_code_points(self, asset_store: Any) -> None:
        self._advance_to_and_fro(asset_store, STRINGS)

        assert [asset_store.get(str(pair)) for pair in STRINGS] == [pair[1] for pair in STRINGS]

    def test_an_advance_to_an_equal_number_leaves_the_current_one(self, asset_store: Any) -> None:
        asset_store.advance("watermark", 3)

        asset_store.advance("watermark", 3.0)

        assert type(asset_store.get("watermark")) is int

    def test_an_advance_to_another_type_is_refused(self, asset_store: Any) -> None:
        for standing, proposed in OF_TWO_TYPES:
            asset_store.set("watermark", standing)
            with pytest.raises(TypeError, match="watermark") as refused:
                asset_store.advance("watermark", proposed)
            assert isinstance(refused.value, HoldfastError)
            assert asset_store.get("watermark") == standing

    def test_a_value_without_order_cannot_advance(self, asset_store: Any) -> None:
        for value in (True, False, [1], {"a": 1}):
            with pytest.raises(TypeError, match="watermark") as refused:
                asset_store.advance("watermark", value)
            assert isinstance(refused.value, HoldfastError)

        assert asset_store.entry("watermark") is None

    def test_a_set_may_move_a_watermark_back(self, asset_store: Any) -> None:
        asset_store.advance("watermark", 2)
        asset_store.set("watermark", 1)

        assert asset_store.get("watermark") == 1

    def test_after_a_delete_a_watermark_starts_over(self, asset_store: Any) -> None:
        asset_store.advance("watermark", 2)
        asset_store.delete("watermark")

        assert asset_store.advance("watermark", 1) == 1

    def test_concurrent_advances_end_with_the_maximum(self, do: Client, asset: AssetScope) -> None:
        values = [3, 8, 1, 7, 2, 6, 4, 5]

        standing = do.together([Advance(asset, "watermark", str(n), ANN) for n in values])

        assert do(Get(asset, "watermark")) == "8"
        assert all(int(stood) >= value for stood, value in zip(standing, values, strict=True))

    def _advance_to_and_fro(self, asset_store: Any, pairs: Sequence[tuple[Any, Any]]) -> None:
        for smaller, larger in pairs:
            key = str((smaller, larger))
            assert asset_store.advance(key, smaller) == smaller
            assert asset_store.advance(key, larger) == larger
            assert asset_store.advance(key, smaller) == larger
