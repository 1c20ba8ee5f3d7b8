"""Tests that the gaps that a store declares exist."""

from __future__ import annotations

from typing import Any

import pytest

from holdfast import commands as c
from holdfast.errors import NotSupported
from holdfast.model.entry import TaskWriter
from holdfast.model.scope import AssetScope
from holdfast.store import Store
from holdfast.testing.conformance.fixtures import ANN, StoreFixtures
from holdfast.testing.gaps import IF_VERSION, STAGED_ADVANCE, STAGED_TOGETHER


class Gaps(StoreFixtures):
    def test_no_declared_gap_is_supported(
        self, store: Store, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        probes: dict[str, list[c.Command[Any]]] = {
            IF_VERSION: [c.Set(asset, "k", "1", ANN, if_version=0)],
            STAGED_ADVANCE: [c.Advance(asset, "k", "1", attempt, on_success=True)],
            STAGED_TOGETHER: [c.Set(asset, key, "1", attempt, on_success=True) for key in "kl"],
        }
        for gap in self.gaps:
            if not isinstance(gap, str):
                assert not store.supports(gap), f"{gap.__name__} is supported: it is not a gap"
                continue
            *before, last = probes[gap]
            for command in before:
                store.execute(command)
            with pytest.raises(NotSupported):
                store.execute(last)
