"""Conformance suite of worker-side backends: classes that pass, and mistakes that it finds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from dict_backends import AirflowHooks, CanonicalHooks, DraftReferenceHooks, DraftValueHooks

from holdfast.accessor.task_store import TaskStore
from holdfast.commands import RegisterTask
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import TaskScope
from holdfast.settings import ObjectStore
from holdfast.stores.offload.hook_names import WorkerHooks
from holdfast.stores.offload.objects.backend import ObjectStoreBackend
from holdfast.stores.offload.store import OffloadStore
from holdfast.testing import WorkerBackendConformance
from holdfast.testing.memory_store import MemoryStore
from holdfast.testing.worker_backend import SCOPES


class SpellingConformance(WorkerBackendConformance):
    spelling: ClassVar[type[Any]]

    @pytest.fixture
    def make_backend(self) -> Callable[[], Any]:
        backend = self.spelling()
        return lambda: backend


class TestCanonical(SpellingConformance):
    spelling = CanonicalHooks


class TestAirflow(SpellingConformance):
    spelling = AirflowHooks


class TestDraftReference(SpellingConformance):
    spelling = DraftReferenceHooks
    deletes = False


class TestDraftValue(SpellingConformance):
    spelling = DraftValueHooks


class TestObjectStoreBackend(WorkerBackendConformance):
    content_addressed = True

    @pytest.fixture
    def make_backend(self, tmp_path: Path) -> Callable[[], Any]:
        return lambda: ObjectStoreBackend(ObjectStore(url=f"file://{tmp_path}"))


class Random(CanonicalHooks):
    def keep(self, place: str, value: Any) -> str:
        return super().keep(f"{place}/{len(self.objects)}", value)


class NoText(CanonicalHooks):
    def keep(self, place: str, value: Any) -> Any:
        return super().keep(place, value).encode()


def test_the_suite_detects_unstable_references() -> None:
    hooks = WorkerHooks(Random())

    with pytest.raises(AssertionError, match="must not depend on time or chance"):
        WorkerBackendConformance().test_the_same_value_of_the_same_key_has_the_same_reference(
            hooks, hooks, SCOPES[0]
        )


def test_the_suite_detects_references_that_are_not_text() -> None:
    with pytest.raises(AssertionError):
        WorkerBackendConformance().test_a_reference_is_text(WorkerHooks(NoText()), SCOPES[0])


def test_unstable_references_cause_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inner = MemoryStore()
    scope = TaskScope("sales", "monday", "load")
    inner.execute(RegisterTask(scope))
    task_store = TaskStore(OffloadStore(inner, Random()), scope, ApiWriter("ann"))

    task_store.set("k", 1)
    assert not caplog.records
    task_store.set("k", 2)

    assert "Random returned another reference for `k` of task sales/monday/load" in caplog.text
    assert task_store.get("k") == 2
