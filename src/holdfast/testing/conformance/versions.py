"""Versions: increasing numbers, and writes conditional on a version."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast import commands as c
from holdfast.commands import Clear, Delete, Get, GetEntry, Set, SetMany
from holdfast.errors import VersionConflict
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.testing.client import Client
from holdfast.testing.clock import Clock
from holdfast.testing.conformance.fixtures import ANN, StoreFixtures


class Versions(StoreFixtures):
    def test_the_first_version_is_above_zero(self, do: Client, scope: StoreScope) -> None:
        assert do(Set(scope, "k", "1", ANN)) > 0

    def test_each_write_has_a_larger_version(self, do: Client, scope: StoreScope) -> None:
        first = do(Set(scope, "k", "1", ANN))
        second = do(Set(scope, "k", "1", ANN))
        third = do(SetMany(scope, (("k", "1"),), ANN))

        assert first < second < third

    def test_set_many_is_one_version(self, do: Client, scope: StoreScope) -> None:
        version = do(SetMany(scope, (("a", "1"), ("b", "2")), ANN))

        assert [self._version(do, scope, key) for key in "ab"] == [version, version]

    def test_versions_grow_across_delete(self, do: Client, scope: StoreScope) -> None:
        before = do(Set(scope, "k", "1", ANN))
        do(Delete(scope, "k", ANN))

        assert do(Set(scope, "k", "1", ANN)) > before

    def test_versions_grow_across_clear(self, do: Client, scope: StoreScope) -> None:
        before = do(Set(scope, "k", "1", ANN))
        do(Clear(scope, ANN))

        assert do(Set(scope, "k", "1", ANN)) > before

    def test_versions_grow_across_expiry(self, do: Client, task: TaskScope, clock: Clock) -> None:
        before = do(Set(task, "k", "1", ANN, clock() + timedelta(hours=1)))
        clock.forward(timedelta(hours=2))

        assert do(Set(task, "k", "1", ANN)) > before

    def test_versions_grow_across_cleanup(self, do: Client, task: TaskScope, clock: Clock) -> None:
        before = do(Set(task, "k", "1", ANN, clock() + timedelta(hours=1)))
        clock.forward(timedelta(hours=2))
        do(c.DeleteExpired(clock()))

        assert do(Set(task, "k", "1", ANN)) > before

    def test_versions_grow_across_deletion_of_the_run(self, do: Client, task: TaskScope) -> None:
        before = do(Set(task, "k", "1", ANN))
        do(c.DeleteRun(task.dag_id, task.run_id))
        do(c.RegisterTask(task))

        with pytest.raises(VersionConflict, match="absent"):
            do(Set(task, "k", "2", ANN, if_version=before))
        assert do(Set(task, "k", "2", ANN)) > before

    def test_versions_grow_across_repeated_deletion_of_the_run(
        self, do: Client, task: TaskScope
    ) -> None:
        before = do(Set(task, "k", "1", ANN))
        for _ in range(2):
            do(c.DeleteRun(task.dag_id, task.run_id))
            do(c.RegisterTask(task))
        do(c.DeleteRun(task.dag_id, task.run_id))
        do(c.DeleteRun(task.dag_id, task.run_id))
        do(c.RegisterTask(task))

        assert do(Set(task, "k", "2", ANN)) > before

    @pytest.mark.parametrize(
        "again", [("orders", "s3://lake/orders"), ("orders", "x:orders"), ("sales", None)]
    )
    def test_versions_grow_across_deletion_of_the_asset(
        self, do: Client, again: tuple[str, str | None]
    ) -> None:
        name, uri = again
        do(c.DeclareAsset("orders", "s3://lake/orders"))
        scope = AssetScope(name="orders") if uri else AssetScope(uri="s3://lake/orders")
        before = do(Set(scope, "k", "1", ANN))
        do(c.DeleteAsset(scope))
        do(c.DeclareAsset(name, uri or "s3://lake/orders"))

        with pytest.raises(VersionConflict, match="absent"):
            do(Set(scope, "k", "2", ANN, if_version=before))
        assert do(Set(scope, "k", "2", ANN)) > before

    def test_if_version_writes_over_that_version(self, do: Client, scope: StoreScope) -> None:
        before = do(Set(scope, "k", "1", ANN))

        after = do(Set(scope, "k", "2", ANN, if_version=before))

        assert after > before
        assert do(Get(scope, "k")) == "2"

    def test_if_version_of_an_older_version_writes_nothing(
        self, do: Client, scope: StoreScope
    ) -> None:
        old = do(Set(scope, "k", "1", ANN))
        standing = do(Set(scope, "k", "2", ANN))

        with pytest.raises(VersionConflict, match="k"):
            do(Set(scope, "k", "3", ANN, if_version=old))

        assert do(Get(scope, "k")) == "2"
        assert self._version(do, scope, "k") == standing

    def test_if_version_of_a_future_version_writes_nothing(
        self, do: Client, scope: StoreScope
    ) -> None:
        version = do(Set(scope, "k", "1", ANN))

        with pytest.raises(VersionConflict):
            do(Set(scope, "k", "2", ANN, if_version=version + 1))

        assert do(Get(scope, "k")) == "1"

    def test_if_version_zero_writes_an_absent_key(self, do: Client, scope: StoreScope) -> None:
        do(Set(scope, "k", "1", ANN, if_version=0))

        assert do(Get(scope, "k")) == "1"

    def test_if_version_zero_does_not_overwrite(self, do: Client, scope: StoreScope) -> None:
        do(Set(scope, "k", "1", ANN))

        with pytest.raises(VersionConflict):
            do(Set(scope, "k", "2", ANN, if_version=0))

        assert do(Get(scope, "k")) == "1"

    def test_if_version_zero_writes_after_a_delete(self, do: Client, scope: StoreScope) -> None:
        before = do(Set(scope, "k", "1", ANN))
        do(Delete(scope, "k", ANN))

        assert do(Set(scope, "k", "2", ANN, if_version=0)) > before

    def test_if_version_zero_writes_over_an_expired_entry(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        before = do(Set(task, "k", "1", ANN, clock() + timedelta(hours=1)))
        clock.forward(timedelta(hours=2))

        assert do(Set(task, "k", "2", ANN, if_version=0)) > before
        assert do(Get(task, "k")) == "2"

    def test_if_version_of_a_deleted_entry_writes_nothing(
        self, do: Client, scope: StoreScope
    ) -> None:
        version = do(Set(scope, "k", "1", ANN))
        do(Delete(scope, "k", ANN))

        with pytest.raises(VersionConflict, match="absent"):
            do(Set(scope, "k", "2", ANN, if_version=version))

        assert do(Get(scope, "k")) is None

    def test_if_version_of_an_expired_entry_writes_nothing(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        version = do(Set(task, "k", "1", ANN, clock() + timedelta(hours=1)))
        clock.forward(timedelta(hours=2))

        with pytest.raises(VersionConflict, match="absent"):
            do(Set(task, "k", "2", ANN, if_version=version))

        assert do(Get(task, "k")) is None

    def test_if_version_of_one_key_does_not_depend_on_another(
        self, do: Client, scope: StoreScope
    ) -> None:
        version = do(Set(scope, "a", "1", ANN))
        do(Set(scope, "b", "1", ANN))

        do(Set(scope, "a", "2", ANN, if_version=version))

        assert do(Get(scope, "a")) == "2"

    def test_one_of_several_concurrent_writes_on_one_version_succeeds(
        self, do: Client, scope: StoreScope
    ) -> None:
        version = do(Set(scope, "k", '"before"', ANN))

        outcomes = do.together([Set(scope, "k", str(n), ANN, if_version=version) for n in range(8)])

        refused = [each for each in outcomes if isinstance(each, VersionConflict)]
        assert len(refused) == 7
        assert self._version(do, scope, "k") in outcomes

    def test_one_of_several_concurrent_writes_on_absence_succeeds(
        self, do: Client, scope: StoreScope
    ) -> None:
        outcomes = do.together([Set(scope, "k", str(n), ANN, if_version=0) for n in range(8)])

        refused = [each for each in outcomes if isinstance(each, VersionConflict)]
        assert len(refused) == 7

    def test_the_accessor_passes_if_version_on(self, accessor: Any) -> None:
        accessor.set("k", 1, if_version=0)
        version = accessor.entry("k").version

        accessor.set("k", 2, if_version=version)

        with pytest.raises(VersionConflict):
            accessor.set("k", 3, if_version=version)
        assert accessor.get("k") == 2

    def _version(self, do: Client, scope: StoreScope, key: str) -> int:
        entry = do(GetEntry(scope, key))
        assert entry is not None
        return entry.version
