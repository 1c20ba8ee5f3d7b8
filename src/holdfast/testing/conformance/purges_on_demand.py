"""Purges on demand: objects whose deletion has failed, and purges of one scope."""

from __future__ import annotations

from holdfast import commands as c
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.testing.client import Client
from holdfast.testing.conformance.fixtures import ANN, StoreFixtures
from holdfast.testing.conformance.purging import (
    MINUTE,
    TAKER,
    A,
    B,
    named,
    put,
    reserve,
    take,
    taken,
)


class Retries(StoreFixtures):
    def test_a_purge_on_demand_takes_objects_whose_deletion_has_failed(
        self, do: Client, task: TaskScope
    ) -> None:
        put(do, task, "k", A, ANN)
        do(c.Delete(task, "k", ANN))
        [purge] = take(do)
        do(c.FinishPurges(TAKER, (), ((purge.id, "no"),)))
        other = c.Part(TaskScope("sales", "monday", "other"))

        assert taken(do) == []
        assert do(c.TakePurges(100, MINUTE, TAKER, other, retry=True)).purges == ()
        [again] = do(c.TakePurges(100, MINUTE, TAKER, c.Part(task), retry=True)).purges
        assert (again.value, again.tries) == (A, 1)
        assert do(c.TakePurges(100, MINUTE, "another", retry=True)).purges == ()

    def test_a_purge_on_demand_does_not_take_reserved_objects(
        self, do: Client, task: TaskScope
    ) -> None:
        do(reserve(task, "k", A, ANN))

        assert do(c.TakePurges(100, MINUTE, TAKER, retry=True)).purges == ()

    def test_the_queue_is_counted_for_one_scope(
        self, do: Client, task: TaskScope, asset: AssetScope
    ) -> None:
        do(c.QueueObjects(((task, "k", A), (named(asset), "k", B), (named(asset), "l", B))))
        [purge, _] = take(do, scope=named(asset))
        do(c.FinishPurges(TAKER, (), ((purge.id, "no"),)))

        assert do(c.CountPurges(c.Part(task))) == c.PurgeQueue(1, 0, 0)
        assert do(c.CountPurges(c.Part(named(asset)))) == c.PurgeQueue(2, 1, 0, "no")
        assert do(c.CountPurges()).waiting == 3
