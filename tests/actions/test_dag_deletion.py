"""Deletion of a DAG whose file comes back meanwhile."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast import commands as c
from holdfast.actions.dags import delete_dag
from holdfast.errors import Conflict
from holdfast.flow import run
from holdfast.model.entry import ApiWriter
from holdfast.model.run import RunState
from holdfast.stores.sql import SqlStore
from holdfast.testing.runs.samples import ORDERS_CHANGED, ORDERS_SPEC, dag, emit

SALES = c.SaveFile("sales.py", (dag("sales", ORDERS_SPEC),), seen=True)


class Deployment:
    """A store in which a scheduler saves the file after the first deletion, and starts a run."""

    def __init__(self, store: SqlStore) -> None:
        self.store = store
        self.deployed = False

    def execute(self, command: c.Command[Any]) -> Any:
        answer = self.store.execute(command)
        if isinstance(command, c.DeleteRun) and not self.deployed:
            self.deployed = True
            self.store.execute(SALES)
            self.store.execute(c.CreateAssetRun("sales", "by the event"))
        return answer


def test_a_dag_that_comes_back_during_its_deletion_keeps_its_new_runs(tmp_path: Path) -> None:
    with SqlStore(f"sqlite:///{tmp_path / 'store.db'}") as store:
        store.execute(SALES)
        for old in ("1", "2", "3"):
            store.execute(c.CreateRun(dag_id="sales", run_id=old))
            end = c.MarkRun(
                dag_id="sales", run_id=old, state=RunState.SUCCESS, writer=ApiWriter("ann")
            )
            store.execute(end)
        store.execute(c.ForgetFile("sales.py", ("sales",)))
        emit(store, ORDERS_CHANGED)

        with pytest.raises(Conflict) as refused:
            run(delete_dag("sales"), Deployment(store).execute)

        assert refused.value.message == (
            "DAG `sales` is in sales.py, which a scheduler has; 1 run was deleted before"
        )
        left = store.execute(c.ListRuns(dag_id="sales"))
        assert [one.run_id for one in left] == ["by the event", "2", "1"]
        assert len(store.execute(c.RunEvents("sales", "by the event"))) == 1


def test_the_deletion_returns_how_many_runs_it_has_deleted(tmp_path: Path) -> None:
    with SqlStore(f"sqlite:///{tmp_path / 'store.db'}") as store:
        store.execute(c.SaveFile("sales.py", (dag("sales"),)))
        store.execute(c.CreateRun(dag_id="sales", run_id="1"))
        end = c.MarkRun(dag_id="sales", run_id="1", state=RunState.FAILED, writer=ApiWriter("ann"))
        store.execute(end)

        assert run(delete_dag("sales"), store.execute) == 1
        assert store.execute(c.ListDags()) == ()
