"""Conformance suite of worker-side backends. A backend that does not pass it may lose values."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.stores.backend.base import BaseStoreBackend
from holdfast.stores.offload.hook_names import WorkerHooks

VALUES: tuple[Any, ...] = (
    {"id": "app_1", "tries": [1, 2.5, None, True]},
    "2026-01-31",
    0,
    False,
    [],
    "ä \U0001f30d \x00 ' \" \\ \n",
    {"__holdfast_ref__": "x"},
)
SCOPES: tuple[StoreScope, ...] = (
    TaskScope("sales", "2026-01-31", "load"),
    TaskScope("sales", "2026-01-31", "load", 0),
    TaskScope("sales", "2026-01-31", "load", 1),
    TaskScope("sales", "2026-02-01", "load"),
    AssetScope(name="orders"),
    AssetScope(name="s3://lake/orders?x=1"),
)
KEYS = ("k", "K", "a/b", "../k", "..", " ", "k%2F", "\U0001f30d" * 512)


class WorkerBackendConformance:
    """Base class of a backend's test. A subclass has a fixture `make_backend`, which returns a
    function that creates a new backend on the same storage with each call."""

    content_addressed: ClassVar[bool] = False
    """Whether each content has an object of its own, as with ObjectStoreBackend. Otherwise the
    reference depends on scope and key alone, and the object is overwritten."""
    deletes: ClassVar[bool] = True
    """Whether the object of a deleted entry can be deleted."""

    @pytest.fixture
    def make_backend(self) -> Callable[[], BaseStoreBackend]:
        raise NotImplementedError("a subclass must define the fixture `make_backend`")

    @pytest.fixture
    def hooks(self, make_backend: Callable[[], BaseStoreBackend]) -> WorkerHooks:
        return WorkerHooks(make_backend())

    @pytest.fixture
    def other_workers(self, make_backend: Callable[[], BaseStoreBackend]) -> WorkerHooks:
        """Return the hooks on another machine."""
        return WorkerHooks(make_backend())

    @pytest.fixture(params=SCOPES, ids=str)
    def scope(self, request: pytest.FixtureRequest, hooks: WorkerHooks) -> StoreScope:
        scope: StoreScope = request.param
        if not hooks.offloads(scope):
            pytest.skip(f"{hooks.name} has no hooks for {scope}")
        return scope

    @pytest.mark.parametrize("value", VALUES, ids=json.dumps)
    def test_a_value_is_read_unchanged_on_any_machine(
        self, hooks: WorkerHooks, other_workers: WorkerHooks, scope: StoreScope, value: Any
    ) -> None:
        reference = hooks.serialize(scope, "k", value)

        assert other_workers.deserialize(scope, reference) == value

    def test_a_reference_is_text(self, hooks: WorkerHooks, scope: StoreScope) -> None:
        reference = hooks.serialize(scope, "k", 1)

        assert isinstance(reference, str)
        assert reference

    def test_the_same_value_of_the_same_key_has_the_same_reference(
        self, hooks: WorkerHooks, other_workers: WorkerHooks, scope: StoreScope
    ) -> None:
        references = {worker.serialize(scope, "k", 1) for worker in (hooks, other_workers, hooks)}

        assert len(references) == 1, "references must not depend on time or chance"

    def test_another_value_replaces_the_previous_one(
        self, hooks: WorkerHooks, scope: StoreScope
    ) -> None:
        first = hooks.serialize(scope, "k", 1)
        second = hooks.serialize(scope, "k", 2)

        assert (first != second) is self.content_addressed
        assert hooks.deserialize(scope, second) == 2
        if self.content_addressed:
            assert hooks.deserialize(scope, first) == 1

    def test_no_two_keys_share_a_reference(self, hooks: WorkerHooks, scope: StoreScope) -> None:
        references = {key: hooks.serialize(scope, key, key) for key in KEYS}

        assert len(set(references.values())) == len(KEYS)
        for key, reference in references.items():
            assert hooks.deserialize(scope, reference) == key

    def test_no_two_scopes_share_a_reference(self, hooks: WorkerHooks) -> None:
        scopes = [scope for scope in SCOPES if hooks.offloads(scope)]

        references = [hooks.serialize(scope, "k", str(scope)) for scope in scopes]

        assert len(set(references)) == len(scopes)
        for scope, reference in zip(scopes, references, strict=True):
            assert hooks.deserialize(scope, reference) == str(scope)

    def test_reading_a_deleted_object_is_an_error(
        self, hooks: WorkerHooks, scope: StoreScope
    ) -> None:
        if not self.deletes:
            pytest.skip(f"{hooks.name} overwrites its objects")
        kept = hooks.serialize(scope, "other", 2)
        reference = hooks.serialize(scope, "k", 1)

        hooks.purge(scope, "k", reference)

        with pytest.raises(Exception):  # noqa: B017, PT011  (any will do, but not a value)
            hooks.deserialize(scope, reference)
        assert hooks.deserialize(scope, kept) == 2

    def test_clearing_a_scope_leaves_the_objects_of_others(
        self, hooks: WorkerHooks, scope: StoreScope
    ) -> None:
        others = [other for other in SCOPES if other != scope and hooks.offloads(other)]
        kept = [(other, hooks.serialize(other, "k", str(other))) for other in others]
        references = [hooks.serialize(scope, key, key) for key in KEYS]

        if not hooks.clears or not hooks.clear(scope, all_map_indices=False):
            pytest.skip(f"{hooks.name} has no clear")

        for reference in references:
            with pytest.raises(Exception):  # noqa: B017, PT011  (any will do, but not a value)
                hooks.deserialize(scope, reference)
        assert [hooks.deserialize(*one) for one in kept] == [str(other) for other, _ in kept]

    def test_an_absent_object_can_be_deleted_again(
        self, hooks: WorkerHooks, scope: StoreScope
    ) -> None:
        if not self.deletes:
            pytest.skip(f"{hooks.name} overwrites its objects")
        reference = hooks.serialize(scope, "k", 1)

        hooks.purge(scope, "k", reference)
        hooks.purge(scope, "k", reference)
