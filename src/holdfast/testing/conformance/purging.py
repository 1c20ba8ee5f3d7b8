"""Purge queue: objects without references are queued for deletion once."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from holdfast import commands as c
from holdfast.errors import (
    AssetInactive,
    InvalidInput,
    NotSupported,
    ObjectBusy,
    StaleAttempt,
    UnknownTaskInstance,
)
from holdfast.model.entry import TaskWriter, Writer
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.value import as_reference, is_in_place, is_reference
from holdfast.testing.client import Client
from holdfast.testing.clock import Clock
from holdfast.testing.conformance.fixtures import ANN, ORDERS_URI, TASK, StoreFixtures

A, B = as_reference("s3://lake/a"), as_reference("s3://lake/b")
MINUTE = timedelta(minutes=1)


TAKER, MINE = "taker", "mine"


def reserve(
    scope: StoreScope, key: str, value: str, writer: Writer, name: str = MINE
) -> c.ReserveObjects:
    return c.ReserveObjects(scope, ((key, value, name),), writer)


def put(do: Client, scope: StoreScope, key: str, value: str, *args: Any, **options: Any) -> int:
    """Write a value, after reserving its object where it is a reference."""
    if is_reference(value):
        do(reserve(scope, key, "" if is_in_place(value) else value, args[0]))
        options["reservation"] = MINE
    return do(c.Set(scope, key, value, *args, **options))


def take(do: Client, **where: Any) -> tuple[c.Purge, ...]:
    return do(c.TakePurges(100, MINUTE, TAKER, c.Part(**where))).purges


def named(scope: StoreScope) -> StoreScope:
    """Return a scope as workers name it."""
    return scope if isinstance(scope, TaskScope) else AssetScope(name=scope.name)


def taken(do: Client, **where: Any) -> list[str]:
    return [purge.value for purge in take(do, **where)]


class Purging(StoreFixtures):
    def test_the_object_of_a_deleted_entry_is_queued(self, do: Client, task: TaskScope) -> None:
        put(do, task, "k", A, ANN)

        do(c.Delete(task, "k", ANN))

        [purge] = take(do)
        assert (purge.scope, purge.key, purge.value, purge.tries) == (task, "k", A, 0)

    def test_an_object_with_a_reference_left_is_not_queued(
        self, do: Client, scope: StoreScope
    ) -> None:
        put(do, scope, "k", A, ANN)
        put(do, scope, "k", A, ANN)
        do(c.ReserveObjects(scope, (("k", A, MINE), ("other", B, MINE)), ANN))
        do(c.SetMany(scope, (("k", A), ("other", B)), ANN, reservation=MINE))

        assert taken(do) == []
        assert do(c.CountPurges()).waiting == 0

    def test_the_object_of_an_overwritten_task_entry_is_queued(
        self, do: Client, task: TaskScope
    ) -> None:
        put(do, task, "k", A, ANN)

        put(do, task, "k", "1", ANN)

        assert taken(do) == [A]

    def test_the_objects_of_a_cleared_scope_are_queued(self, do: Client, task: TaskScope) -> None:
        for key, value in (("k", A), ("l", B)):
            put(do, task, key, value, ANN)

        do(c.Clear(task, ANN))

        assert sorted(taken(do, scope=task)) == [A, B]

    def test_the_objects_of_all_cleared_map_indices_are_queued(self, do: Client) -> None:
        first, second = (TaskScope("sales", "monday", "load", index) for index in (0, 1))
        for scope, value in ((first, A), (second, B)):
            do(c.RegisterTask(scope))
            put(do, scope, "k", value, ANN)

        do(c.Clear(first, ANN, all_map_indices=True))

        assert sorted(taken(do, scope=first, all_map_indices=True)) == [A, B]

    def test_the_history_of_an_asset_refers_to_overwritten_objects(
        self, do: Client, asset: AssetScope
    ) -> None:
        do(c.History(asset, "k"))
        put(do, asset, "k", A, ANN)
        put(do, asset, "k", B, ANN)
        do(c.Delete(asset, "k", ANN))

        assert taken(do) == []

    def test_the_history_does_not_refer_to_objects_overwritten_in_place(
        self, do: Client, asset: AssetScope
    ) -> None:
        reference = as_reference("vault/a", in_place=True)
        put(do, asset, "k", reference, ANN)
        put(do, asset, "k", reference, ANN)
        assert taken(do) == []

        do(c.Delete(asset, "k", ANN))

        assert taken(do) == [reference]

    def test_the_object_of_a_version_dropped_from_the_history_is_queued(
        self, do: Client, asset: AssetScope
    ) -> None:
        put(do, asset, "k", A, ANN)

        for number in range(self.history_limit):
            put(do, asset, "k", str(number), ANN)

        assert taken(do, scope=asset) == [A]

    def test_an_object_of_two_versions_is_kept_while_one_refers_to_it(
        self, do: Client, asset: AssetScope
    ) -> None:
        do(c.History(asset, "k"))
        for value in (A, "0", A):
            put(do, asset, "k", value, ANN)

        for number in range(self.history_limit - 1):
            put(do, asset, "k", str(number), ANN)

        assert taken(do) == []

    def test_cleanup_queues_the_objects_of_expired_entries(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        for key, value in (("k", A), ("l", B)):
            put(do, task, key, value, ANN, clock() + MINUTE)
        clock.forward(MINUTE * 2)
        assert taken(do) == []

        do(c.DeleteExpired(clock(), limit=1))
        do(c.DeleteExpired(clock()))

        assert sorted(taken(do)) == [A, B]

    def test_the_objects_of_a_deleted_run_are_queued(self, do: Client, attempt: TaskWriter) -> None:
        put(do, TASK, "k", A, attempt)

        do(c.DeleteRun(TASK.dag_id, TASK.run_id))

        [purge] = take(do)
        assert (purge.scope, purge.value) == (TASK, A)

    def test_the_objects_of_a_deleted_asset_are_queued(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        staged = as_reference("s3://lake/staged")
        put(do, asset, "k", A, ANN)
        put(do, asset, "k", B, ANN)
        put(do, asset, "k", staged, attempt, on_success=True)

        do(c.DeleteAsset(asset))

        purges = take(do)
        assert {purge.value for purge in purges} == {A, B, staged}
        assert {purge.scope for purge in purges} == {AssetScope(name="orders", uri=ORDERS_URI)}

    def test_the_sweep_queues_the_objects_of_orphans(self, do: Client, clock: Clock) -> None:
        do(c.DeclareDagAssets("sales", (("orders", ORDERS_URI),)))
        put(do, AssetScope(name="orders"), "k", A, ANN)
        do(c.DeclareDagAssets("sales", ()))

        do(c.DeleteOrphans(clock()))

        assert taken(do) == [A]

    def test_a_staged_write_refers_to_its_object(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        put(do, asset, "k", A, attempt, on_success=True)
        assert taken(do) == []

        do(c.FinishAttempt(attempt, True))

        assert taken(do) == []
        assert do(c.Get(asset, "k")) == A

    def test_the_object_of_a_dropped_staged_write_is_queued(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        put(do, asset, "k", A, attempt, on_success=True)
        put(do, asset, "k", B, attempt, on_success=True)
        assert taken(do) == [A]

        do(c.FinishAttempt(attempt, False))

        assert taken(do) == [B]

    def test_the_next_attempt_drops_the_staged_writes_of_the_previous_one(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        put(do, asset, "k", A, attempt, on_success=True)

        do(c.StartAttempt(attempt.scope))

        assert taken(do) == [A]

    def test_clearing_on_success_queues_the_objects(
        self, do: Client, task: TaskScope, attempt: TaskWriter
    ) -> None:
        put(do, task, "k", A, attempt)

        do(c.FinishAttempt(attempt, True, clear=True))

        assert taken(do) == [A]

    def test_a_rewind_refers_to_the_old_object_again(self, do: Client, asset: AssetScope) -> None:
        version = put(do, asset, "k", A, ANN)
        put(do, asset, "k", B, ANN)

        do(c.Rewind(asset, "k", c.ToVersion(version), ANN))

        assert do(c.Get(asset, "k")) == A
        assert taken(do) == []

    def test_a_taken_object_is_not_taken_again_until_its_lease_ends(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        put(do, task, "k", A, ANN)
        do(c.Delete(task, "k", ANN))
        assert taken(do) == [A]
        assert taken(do) == []

        clock.forward(MINUTE)

        assert taken(do) == [A]

    def test_a_deleted_object_leaves_the_queue(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        put(do, task, "k", A, ANN)
        do(c.Delete(task, "k", ANN))
        [purge] = take(do)

        do(c.FinishPurges(TAKER, (purge.id,)))

        clock.forward(MINUTE)
        assert taken(do) == []
        assert do(c.CountPurges()).waiting == 0

    def test_taking_one_scope_leaves_the_rest_of_the_queue(
        self, do: Client, task: TaskScope, asset: AssetScope
    ) -> None:
        for scope in (task, asset):
            put(do, scope, "k", A, ANN)
        do(c.Delete(task, "k", ANN))

        assert taken(do, scope=asset) == []
        [purge] = take(do, scope=task)
        do(c.FinishPurges("another", (purge.id,), ((purge.id, "no"),)))

        assert do(c.CountPurges()).waiting == 1

    def test_a_failed_deletion_is_retried_with_backoff(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        put(do, task, "k", A, ANN)
        do(c.Delete(task, "k", ANN))
        for tries in range(3):
            [purge] = take(do)
            assert purge.tries == tries

            do(c.FinishPurges(TAKER, (), ((purge.id, "no permission"),)))

            clock.forward(c.pause_after(tries) - timedelta(seconds=1))
            assert taken(do) == []
            clock.forward(timedelta(seconds=1))
        assert do(c.CountPurges()) == c.PurgeQueue(1, 1, 0, "no permission")

    def test_a_reserved_object_without_reference_becomes_due(
        self, do: Client, scope: StoreScope, clock: Clock
    ) -> None:
        do(reserve(scope, "k", A, ANN))
        assert taken(do) == []
        assert do(c.CountPurges()) == c.PurgeQueue(0, 0, 1)

        clock.forward(c.RESERVED_FOR)

        assert taken(do) == [A]

    def test_a_reserved_object_that_is_referred_to_leaves_the_queue(
        self, do: Client, scope: StoreScope
    ) -> None:
        do(c.ReserveObjects(scope, (("k", A, MINE), ("l", B, MINE)), ANN))

        do(c.SetMany(scope, (("k", A), ("l", B)), ANN, reservation=MINE))

        assert do(c.CountPurges()).waiting == 0

    def test_a_released_object_is_due_unless_it_is_referred_to(
        self, do: Client, scope: StoreScope
    ) -> None:
        put(do, scope, "k", A, ANN)
        objects = (("k", A, "other"), ("l", B, "other"))
        do(c.ReserveObjects(scope, objects, ANN))

        do(c.ReleaseObjects(scope, objects, ANN))

        assert taken(do) == [B]

    def test_an_object_queued_by_a_client_is_due_unless_it_is_referred_to(
        self, do: Client, task: TaskScope, asset: AssetScope
    ) -> None:
        put(do, task, "k", A, ANN)
        its = AssetScope(name="orders", uri=ORDERS_URI)
        put(do, asset, "k", A, ANN)
        do(reserve(asset, "l", A, ANN))
        gone = TaskScope("long", "gone", "task", 3)

        do(
            c.QueueObjects(
                ((task, "k", A), (its, "k", A), (its, "l", A), (gone, "k", B), (its, "m", B))
            )
        )

        assert {(purge.scope, purge.key) for purge in take(do)} == {(gone, "k"), (its, "m")}

    def test_the_queue_identifies_assets_by_name(self, do: Client, asset: AssetScope) -> None:
        orders = do(c.GetAsset(asset)).scope
        do(c.QueueObjects(((orders, "k", A),)))
        with pytest.raises(InvalidInput, match="identified by its id only"):
            c.QueueObjects(((AssetScope(asset_id=orders.asset_id), "k", A),))

        forged = AssetScope(asset_id=orders.asset_id, name="another")
        assert take(do, scope=forged) == ()
        assert [purge.key for purge in take(do)] == ["k"]

    def test_a_queued_object_can_be_reserved_and_referred_to_again(
        self, do: Client, task: TaskScope
    ) -> None:
        put(do, task, "k", A, ANN)
        do(c.Delete(task, "k", ANN))

        do(reserve(task, "k", A, ANN))
        assert taken(do) == []
        do(c.Set(task, "k", A, ANN, reservation=MINE))

        assert do(c.CountPurges()).waiting == 0

    @pytest.mark.parametrize("value", [A, ""])
    def test_an_object_that_is_being_deleted_cannot_be_reserved(
        self, do: Client, task: TaskScope, value: str
    ) -> None:
        put(do, task, "k", A, ANN)
        do(c.Delete(task, "k", ANN))
        take(do)

        with pytest.raises(ObjectBusy):
            do(reserve(task, "k", value, ANN))

        if value:
            do(c.ReserveObjects(task, (("k", B, MINE), ("l", A, MINE)), ANN))

    def test_an_object_that_is_being_deleted_cannot_be_referred_to(
        self, do: Client, task: TaskScope
    ) -> None:
        put(do, task, "k", A, ANN)
        do(c.Delete(task, "k", ANN))
        take(do)

        with pytest.raises(ObjectBusy):
            do(c.Set(task, "k", A, ANN, reservation=MINE))

        assert do(c.Get(task, "k")) is None

    def test_an_asset_of_the_same_name_has_the_same_objects(self, do: Client) -> None:
        do(c.DeclareAsset("orders", ORDERS_URI))
        put(do, AssetScope(name="orders"), "k", A, ANN)
        do(c.DeleteAsset(AssetScope(name="orders")))
        do(c.DeclareAsset("orders", ORDERS_URI))

        do(reserve(AssetScope(uri=ORDERS_URI), "k", A, ANN))
        do(c.Set(AssetScope(name="orders"), "k", A, ANN, reservation=MINE))

        assert taken(do) == []

    def test_a_writer_cannot_reserve_objects_of_entries_it_may_not_write(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        do(c.StartAttempt(attempt.scope))
        values = (("k", A, MINE),)

        with pytest.raises(StaleAttempt):
            do(c.ReserveObjects(attempt.scope, values, attempt))
        with pytest.raises(StaleAttempt):
            do(c.ReserveObjects(asset, values, attempt))
        with pytest.raises(UnknownTaskInstance):
            do(c.ReserveObjects(TaskScope("no", "such", "task"), values, ANN))

        assert do(c.CountPurges()).waiting == 0

    def test_objects_of_an_inactive_asset_cannot_be_reserved(self, do: Client) -> None:
        do(c.DeclareDagAssets("sales", (("orders", ORDERS_URI),)))
        do(c.DeclareDagAssets("sales", ()))

        with pytest.raises(AssetInactive):
            do(reserve(AssetScope(name="orders"), "k", A, ANN))

    def test_an_object_reserved_by_one_writer_is_not_queued_by_another(
        self, do: Client, scope: StoreScope
    ) -> None:
        put(do, scope, "k", A, ANN)
        do(reserve(scope, "k", A, ANN, "other"))  # a second writer of the same value

        do(c.Delete(scope, "k", ANN))

        assert taken(do) == []
        do(c.Set(scope, "k", A, ANN, reservation="other"))
        assert do(c.Get(scope, "k")) == A

    def test_a_dropped_staged_write_does_not_queue_an_object_reserved_by_another(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        put(do, asset, "k", A, attempt, on_success=True)
        do(reserve(asset, "k", A, ANN))

        do(c.FinishAttempt(attempt, False))

        assert taken(do) == []

    def test_a_reference_needs_an_object_reserved_for_its_write(
        self, do: Client, task: TaskScope
    ) -> None:
        do(reserve(task, "k", A, ANN, "other"))
        put(do, task, "k", A, ANN)
        do(c.Delete(task, "k", ANN))
        assert taken(do) == []  # the other writer may have seen it there
        do(c.Set(task, "k", A, ANN, reservation="other"))

        for reservation in ("", MINE, "other"):
            with pytest.raises(ObjectBusy):
                do(c.Set(task, "k", A, ANN, reservation=reservation))

    def test_a_deleted_object_is_no_longer_reserved(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        do(reserve(task, "k", A, ANN))
        clock.forward(c.RESERVED_FOR)
        [purge] = take(do)
        do(c.FinishPurges(TAKER, (purge.id,)))

        with pytest.raises(ObjectBusy):
            do(c.Set(task, "k", A, ANN, reservation=MINE))

    def test_the_report_of_a_taker_whose_lease_has_ended_is_ignored(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        put(do, task, "k", A, ANN)
        do(c.Delete(task, "k", ANN))
        [purge] = take(do)
        clock.forward(MINUTE)
        do(c.TakePurges(1, MINUTE, "another"))

        do(c.FinishPurges(TAKER, (purge.id,)))

        assert do(c.CountPurges()).waiting == 1

    def test_an_object_overwritten_in_place_is_reserved_by_its_key(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        reference = as_reference("vault/a", in_place=True)
        do(c.Set(task, "k", reference, ANN))
        do(reserve(task, "k", "", ANN))

        do(c.Delete(task, "k", ANN))

        assert taken(do) == []
        do(c.Set(task, "k", reference, ANN, reservation=MINE))
        assert do(c.CountPurges()).waiting == 0
        do(reserve(task, "l", "", ANN))
        clock.forward(c.RESERVED_FOR)
        assert [purge.key for purge in take(do)] == ["l"]

    def test_a_user_cannot_rewind_to_an_object_overwritten_in_place(
        self, do: Client, asset: AssetScope
    ) -> None:
        do(c.History(asset, "k"))
        reference = as_reference("vault/a", in_place=True)
        version = do(c.Set(asset, "k", reference, ANN))
        do(c.Set(asset, "k", "1", ANN))

        with pytest.raises(NotSupported):
            do(c.Rewind(asset, "k", c.ToVersion(version), ANN))

    @pytest.mark.parametrize(
        "value", ['{"__holdfast_ref__":"x', '"x"', '{"__holdfast_ref__": "x"}']
    )
    def test_only_references_are_reserved_and_queued(self, task: TaskScope, value: str) -> None:
        with pytest.raises(InvalidInput):
            reserve(task, "k", value, ANN)
        with pytest.raises(InvalidInput):
            c.QueueObjects(((task, "k", value),))
