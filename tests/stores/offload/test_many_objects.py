"""Many objects in one command, more than one statement looks up."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from holdfast import commands as c
from holdfast.errors import ObjectBusy
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.value import as_reference
from holdfast.stores.sql import SqlStore
from holdfast.stores.sql.statements import purge_queue as purge_statements
from holdfast.stores.sql.statements.scope_tables import ASSETS, TASKS, ScopeTables

ANN = ApiWriter("ann")
TASK = TaskScope("sales", "monday", "load")
ORDERS = AssetScope(name="orders")
KEYS = [f"k{number:03}" for number in range(300)]
VALUES = tuple((key, as_reference(f"s3://lake/{key}")) for key in KEYS)
MINUTE = timedelta(minutes=1)


def reserved(reservation: str) -> c.Reserved:
    return tuple((key, value, reservation) for key, value in VALUES)


@pytest.fixture
def store(database_url: str) -> Iterator[SqlStore]:
    with SqlStore(database_url) as store:
        store.execute(c.RegisterTask(TASK))
        store.execute(c.DeclareAsset("orders"))
        yield store


@pytest.fixture(params=[TASK, ORDERS], ids=["task", "asset"])
def scope(request: pytest.FixtureRequest) -> StoreScope:
    found: StoreScope = request.param
    return found


def test_many_reserved_objects_are_referred_to_by_one_write(
    store: SqlStore, scope: StoreScope
) -> None:
    store.execute(c.ReserveObjects(scope, reserved("mine"), ANN))
    assert store.execute(c.CountPurges()).reserved == 300

    store.execute(c.SetMany(scope, VALUES, ANN, reservation="mine"))

    assert store.execute(c.CountPurges()) == c.PurgeQueue(0, 0, 0)
    assert store.execute(c.List(scope, limit=1)).total == 300


def test_many_released_objects_are_deleted(store: SqlStore, scope: StoreScope) -> None:
    store.execute(c.ReserveObjects(scope, reserved("mine"), ANN))
    store.execute(c.ReserveObjects(scope, reserved("anothers")[:1], ANN))

    store.execute(c.ReleaseObjects(scope, reserved("mine"), ANN))
    taken = store.execute(c.TakePurges(1000, MINUTE, "me")).purges
    gone = tuple(purge.id for purge in taken[:200])
    store.execute(c.FinishPurges("me", gone, tuple((p.id, "no") for p in taken[200:])))

    assert [purge.key for purge in taken] == KEYS[1:]
    assert store.execute(c.CountPurges()) == c.PurgeQueue(100, 99, 1, "no")


def test_one_object_that_is_being_deleted_blocks_the_whole_write(
    store: SqlStore, scope: StoreScope
) -> None:
    store.execute(c.QueueObjects(((scope, *VALUES[-1]),)))
    store.execute(c.TakePurges(1, MINUTE, "me"))

    with pytest.raises(ObjectBusy, match=f"`{KEYS[-1]}`"):
        store.execute(c.ReserveObjects(scope, reserved("mine"), ANN))

    assert store.execute(c.CountPurges()).reserved == 0


@pytest.mark.parametrize(("tables", "owner"), [(TASKS, "ti_id"), (ASSETS, "name_digest")])
def test_the_objects_of_a_key_are_found_by_owner_and_key(
    tmp_path: Path, tables: ScopeTables, owner: str
) -> None:
    """Look up by index, or each of a task's objects would be compared with all of them."""
    with SqlStore(f"sqlite:///{tmp_path / 'store.db'}") as store:
        statement = purge_statements.lock_of_keys(tables, 1).compile(store._engine)
        with store._engine.connect() as connection:
            plan = connection.execute(
                sa.text(f"EXPLAIN QUERY PLAN {statement}"),
                dict.fromkeys(statement.params, "x"),
            ).all()

    assert any(f"({owner}=? AND key=?)" in row[-1] for row in plan)
