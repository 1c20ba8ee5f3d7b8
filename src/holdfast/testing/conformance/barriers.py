"""Barriers: deletion of all objects of a scope at once, while writers wait."""

from __future__ import annotations

import pytest

from holdfast import commands as c
from holdfast.errors import InvalidInput, ObjectBusy
from holdfast.model.scope import StoreScope, TaskScope
from holdfast.model.value import as_reference
from holdfast.testing.client import Client
from holdfast.testing.clock import Clock
from holdfast.testing.conformance.fixtures import ANN, StoreFixtures
from holdfast.testing.conformance.purging import MINUTE, TAKER, named, put, reserve


class Barriers(StoreFixtures):
    def test_a_scope_without_referenced_objects_is_purged_as_a_whole(
        self, do: Client, scope: StoreScope
    ) -> None:
        for key in ("k", "l"):
            put(do, scope, key, as_reference(key, in_place=True), ANN)
        do(c.Clear(scope, ANN))

        all_ = do(c.TakePurges(100, MINUTE, TAKER, c.Part(named(scope)), whole=True))

        assert all_.barrier is not None
        for key in ("k", "l", "new"):
            with pytest.raises(ObjectBusy):
                do(reserve(scope, key, "", ANN))
        with pytest.raises(ObjectBusy):
            do(c.Set(scope, "new", as_reference("new", in_place=True), ANN))
        do(c.FinishPurges(TAKER, (all_.barrier, *(purge.id for purge in all_.purges))))
        do(reserve(scope, "k", "", ANN))
        assert do(c.CountPurges()).waiting == 0

    def test_a_barrier_ends_with_its_lease(self, do: Client, task: TaskScope, clock: Clock) -> None:
        put(do, task, "k", as_reference("k", in_place=True), ANN)
        do(c.Clear(task, ANN))
        assert do(c.TakePurges(100, MINUTE, TAKER, c.Part(task), whole=True)).barrier

        clock.forward(MINUTE)

        do(reserve(task, "l", "", ANN))
        again = do(c.TakePurges(100, MINUTE, TAKER, c.Part(task), whole=True))
        assert "k" in [purge.key for purge in again.purges]
        assert again.barrier is None

    def test_a_scope_with_a_referenced_or_reserved_object_is_not_purged_as_a_whole(
        self, do: Client, scope: StoreScope
    ) -> None:
        put(do, scope, "k", as_reference("k", in_place=True), ANN)
        do(c.Clear(scope, ANN))
        do(reserve(scope, "l", "", ANN, "other"))
        whole = c.TakePurges(100, MINUTE, TAKER, c.Part(named(scope)), whole=True)

        reserved = do(whole)
        do(c.FinishPurges(TAKER, (), ((reserved.purges[0].id, "no"),)))
        do(c.Set(scope, "l", as_reference("l", in_place=True), ANN, reservation="other"))
        do(c.QueueObjects(((named(scope), "m", as_reference("m", in_place=True)),)))
        standing = do(whole)

        assert [purge.key for purge in reserved.purges] == ["k"]
        assert [purge.key for purge in standing.purges] == ["m"]
        assert (reserved.barrier, standing.barrier) == (None, None)

    def test_all_map_indices_are_purged_as_a_whole(self, do: Client) -> None:
        first, second, new = (TaskScope("sales", "monday", "load", index) for index in (0, 1, 2))
        for scope in (first, second, new):
            do(c.RegisterTask(scope))
        put(do, first, "k", as_reference("k", in_place=True), ANN)
        do(c.Clear(second, ANN, all_map_indices=True))

        part = c.Part(second, all_map_indices=True)
        all_ = do(c.TakePurges(100, MINUTE, TAKER, part, whole=True))

        assert all_.barrier is not None
        with pytest.raises(ObjectBusy):
            do(reserve(new, "k", "", ANN))

    def test_a_barrier_needs_a_scope(self) -> None:
        with pytest.raises(InvalidInput):
            c.TakePurges(1, MINUTE, TAKER, whole=True)
