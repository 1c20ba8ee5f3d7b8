"""References to objects: an object that nothing refers to any more is queued for deletion, once."""

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
    def test_an_entry_that_is_deleted_leaves_its_object(self, do: Client, task: TaskScope) -> None:
        put(do, task, "k", A, ANN)

        do(c.Delete(task, "k", ANN))

        [purge] = take(do)
        assert (purge.scope, purge.key, purge.value, purge.tries) == (task, "k", A, 0)

    def test_what_is_still_named_is_not_queued(self, do: Client, scope: StoreScope) -> None:
        put(do, scope, "k", A, ANN)
        put(do, scope, "k", A, ANN)
        do(c.ReserveObjects(scope, (("k", A, MINE), ("other", B, MINE)), ANN))
        do(c.SetMany(scope, (("k", A), ("other", B)), ANN, reservation=MINE))

        assert taken(do) == []
        assert do(c.CountPurges()).waiting == 0

    def test_an_overwritten_object_of_a_task_is_queued(self, do: Client, task: TaskScope) -> None:
        put(do, task, "k", A, ANN)

        put(do, task, "k", "1", ANN)

        assert taken(do) == [A]

    def test_a_cleared_scope_leaves_its_objects(self, do: Client, task: TaskScope) -> None:
        for key, value in (("k", A), ("l", B)):
            put(do, task, key, value, ANN)

        do(c.Clear(task, ANN))

        assert sorted(taken(do, scope=task)) == [A, B]

    def test_every_map_index_that_is_cleared_leaves_its_objects(self, do: Client) -> None:
        first, second = (TaskScope("sales", "monday", "load", index) for index in (0, 1))
        for scope, value in ((first, A), (second, B)):
            do(c.RegisterTask(scope))
            put(do, scope, "k", value, ANN)

        do(c.Clear(first, ANN, all_map_indices=True))

        assert sorted(taken(do, scope=first, all_map_indices=True)) == [A, B]

    def test_the_history_of_an_asset_names_what_was_overwritten(
        self, do: Client, asset: AssetScope
    ) -> None:
        do(c.History(asset, "k"))
        put(do, asset, "k", A, ANN)
        put(do, asset, "k", B, ANN)
        do(c.Delete(asset, "k", ANN))

        assert taken(do) == []

    def test_the_history_does_not_keep_what_was_overwritten_in_place(
        self, do: Client, asset: AssetScope
    ) -> None:
        reference = as_reference("vault/a", in_place=True)
        put(do, asset, "k", reference, ANN)
        put(do, asset, "k", reference, ANN)
        assert taken(do) == []

        do(c.Delete(asset, "k", ANN))

        assert taken(do) == [reference]

    def test_what_falls_off_the_history_is_queued(self, do: Client, asset: AssetScope) -> None:
        put(do, asset, "k", A, ANN)

        for number in range(self.history_limit):
            put(do, asset, "k", str(number), ANN)

        assert taken(do, scope=asset) == [A]

    def test_a_value_that_came_twice_stays_while_one_step_names_it(
        self, do: Client, asset: AssetScope
    ) -> None:
        do(c.History(asset, "k"))
        for value in (A, "0", A):
            put(do, asset, "k", value, ANN)

        for number in range(self.history_limit - 1):
            put(do, asset, "k", str(number), ANN)

        assert taken(do) == []

    def test_cleanup_of_expired_entries_leaves_their_objects(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        for key, value in (("k", A), ("l", B)):
            put(do, task, key, value, ANN, clock() + MINUTE)
        clock.forward(MINUTE * 2)
        assert taken(do) == []

        do(c.DeleteExpired(clock(), limit=1))
        do(c.DeleteExpired(clock()))

        assert sorted(taken(do)) == [A, B]

    def test_a_deleted_run_leaves_its_objects(self, do: Client, attempt: TaskWriter) -> None:
        put(do, TASK, "k", A, attempt)

        do(c.DeleteRun(TASK.dag_id, TASK.run_id))

        [purge] = take(do)
        assert (purge.scope, purge.value) == (TASK, A)

    def test_a_deleted_asset_leaves_its_objects(
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

    def test_the_sweep_of_orphans_leaves_their_objects(self, do: Client, clock: Clock) -> None:
        do(c.DeclareDagAssets("sales", (("orders", ORDERS_URI),)))
        put(do, AssetScope(name="orders"), "k", A, ANN)
        do(c.DeclareDagAssets("sales", ()))

        do(c.DeleteOrphans(clock()))

        assert taken(do) == [A]

    def test_a_staged_object_is_named(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        put(do, asset, "k", A, attempt, on_success=True)
        assert taken(do) == []

        do(c.FinishAttempt(attempt, True))

        assert taken(do) == []
        assert do(c.Get(asset, "k")) == A

    def test_a_dropped_staged_write_leaves_its_object(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        put(do, asset, "k", A, attempt, on_success=True)
        put(do, asset, "k", B, attempt, on_success=True)
        assert taken(do) == [A]

        do(c.FinishAttempt(attempt, False))

        assert taken(do) == [B]

    def test_the_next_attempt_drops_what_the_one_before_staged(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        put(do, asset, "k", A, attempt, on_success=True)

        do(c.StartAttempt(attempt.scope))

        assert taken(do) == [A]

    def test_clearing_on_success_leaves_the_objects(
        self, do: Client, task: TaskScope, attempt: TaskWriter
    ) -> None:
        put(do, task, "k", A, attempt)

        do(c.FinishAttempt(attempt, True, clear=True))

        assert taken(do) == [A]

    def test_a_rewind_names_the_old_object_again(self, do: Client, asset: AssetScope) -> None:
        version = put(do, asset, "k", A, ANN)
        put(do, asset, "k", B, ANN)

        do(c.Rewind(asset, "k", c.ToVersion(version), ANN))

        assert do(c.Get(asset, "k")) == A
        assert taken(do) == []

    def test_what_is_taken_is_nobody_elses_until_its_lease_is_over(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        put(do, task, "k", A, ANN)
        do(c.Delete(task, "k", ANN))
        assert taken(do) == [A]
        assert taken(do) == []

        clock.forward(MINUTE)

        assert taken(do) == [A]

    def test_what_is_gone_leaves_the_queue(self, do: Client, task: TaskScope, clock: Clock) -> None:
        put(do, task, "k", A, ANN)
        do(c.Delete(task, "k", ANN))
        [purge] = take(do)

        do(c.FinishPurges(TAKER, (purge.id,)))

        clock.forward(MINUTE)
        assert taken(do) == []
        assert do(c.CountPurges()).waiting == 0

    def test_a_part_of_the_queue_is_not_the_rest_of_it(
        self, do: Client, task: TaskScope, asset: AssetScope
    ) -> None:
        for scope in (task, asset):
            put(do, scope, "k", A, ANN)
        do(c.Delete(task, "k", ANN))

        assert taken(do, scope=asset) == []
        [purge] = take(do, scope=task)
        do(c.FinishPurges("another", (purge.id,), ((purge.id, "no"),)))

        assert do(c.CountPurges()).waiting == 1

    def test_what_could_not_be_deleted_is_tried_again_later_and_later(
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

    def test_a_reserved_object_that_is_never_named_is_due_in_the_end(
        self, do: Client, scope: StoreScope, clock: Clock
    ) -> None:
        do(reserve(scope, "k", A, ANN))
        assert taken(do) == []
        assert do(c.CountPurges()) == c.PurgeQueue(0, 0, 1)

        clock.forward(c.RESERVED_FOR)

        assert taken(do) == [A]

    def test_a_reserved_object_that_is_named_leaves_the_queue(
        self, do: Client, scope: StoreScope
    ) -> None:
        do(c.ReserveObjects(scope, (("k", A, MINE), ("l", B, MINE)), ANN))

        do(c.SetMany(scope, (("k", A), ("l", B)), ANN, reservation=MINE))

        assert do(c.CountPurges()).waiting == 0

    def test_a_released_object_is_due_unless_it_is_named(
        self, do: Client, scope: StoreScope
    ) -> None:
        put(do, scope, "k", A, ANN)
        objects = (("k", A, "other"), ("l", B, "other"))
        do(c.ReserveObjects(scope, objects, ANN))

        do(c.ReleaseObjects(scope, objects, ANN))

        assert taken(do) == [B]

    def test_what_somebody_queues_is_due_unless_it_is_named(
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

    def test_the_queue_knows_assets_by_name_alone(self, do: Client, asset: AssetScope) -> None:
        orders = do(c.GetAsset(asset)).scope
        do(c.QueueObjects(((orders, "k", A),)))
        with pytest.raises(InvalidInput, match="known by its id alone"):
            c.QueueObjects(((AssetScope(asset_id=orders.asset_id), "k", A),))

        forged = AssetScope(asset_id=orders.asset_id, name="another")
        assert take(do, scope=forged) == ()
        assert [purge.key for purge in take(do)] == ["k"]

    def test_an_object_that_is_queued_can_be_reserved_and_named_again(
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

    def test_an_object_that_is_being_deleted_cannot_be_named(
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

    def test_nobody_reserves_what_they_may_not_write(
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

    def test_nobody_reserves_for_an_inactive_asset(self, do: Client) -> None:
        do(c.DeclareDagAssets("sales", (("orders", ORDERS_URI),)))
        do(c.DeclareDagAssets("sales", ()))

        with pytest.raises(AssetInactive):
            do(reserve(AssetScope(name="orders"), "k", A, ANN))

    def test_what_one_writer_reserves_no_other_leaves_to_be_deleted(
        self, do: Client, scope: StoreScope
    ) -> None:
        put(do, scope, "k", A, ANN)
        do(reserve(scope, "k", A, ANN, "other"))  # a second writer of the same value

        do(c.Delete(scope, "k", ANN))

        assert taken(do) == []
        do(c.Set(scope, "k", A, ANN, reservation="other"))
        assert do(c.Get(scope, "k")) == A

    def test_a_staged_write_that_is_dropped_leaves_what_another_has_reserved(
        self, do: Client, asset: AssetScope, attempt: TaskWriter
    ) -> None:
        put(do, asset, "k", A, attempt, on_success=True)
        do(reserve(asset, "k", A, ANN))

        do(c.FinishAttempt(attempt, False))

        assert taken(do) == []

    def test_a_name_needs_an_object_that_is_reserved_for_it(
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

    def test_an_object_that_is_gone_is_not_reserved_any_more(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        do(reserve(task, "k", A, ANN))
        clock.forward(c.RESERVED_FOR)
        [purge] = take(do)
        do(c.FinishPurges(TAKER, (purge.id,)))

        with pytest.raises(ObjectBusy):
            do(c.Set(task, "k", A, ANN, reservation=MINE))

    def test_a_taker_whose_lease_is_over_is_not_believed(
        self, do: Client, task: TaskScope, clock: Clock
    ) -> None:
        put(do, task, "k", A, ANN)
        do(c.Delete(task, "k", ANN))
        [purge] = take(do)
        clock.forward(MINUTE)
        do(c.TakePurges(1, MINUTE, "another"))

        do(c.FinishPurges(TAKER, (purge.id,)))

        assert do(c.CountPurges()).waiting == 1

    def test_what_is_overwritten_in_place_is_reserved_by_its_key(
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

    def test_a_person_cannot_go_back_to_what_was_overwritten_in_place(
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
