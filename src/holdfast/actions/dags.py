"""Deletion of a DAG, with its runs."""

from __future__ import annotations

from typing import Final

from holdfast import commands as c
from holdfast.errors import Conflict
from holdfast.model.run import CARRIED_OUT
from holdfast.store import Steps

_PAGE: Final = 1000


def count_runs(dag_id: str) -> Steps[int]:
    """Return the number of runs that `delete_dag` would delete. Raise what it would raise."""
    yield c.DeleteDag(dag_id, dry_run=True)
    runs: int = yield c.Count(_runs(dag_id))
    return runs


def delete_dag(dag_id: str) -> Steps[int]:
    """Delete a DAG and the runs that schedulers carried out; those of scripts under its name stay.
    Return the number of deleted runs.

    The DAG goes last, so that a deletion that was interrupted can be repeated. Raise NotFound for
    an unknown DAG, and Conflict where a scheduler has its file or a run has not ended. This is
    checked again with each run: if the file comes back meanwhile, the DAG and the runs that are
    left stay, and the error says how many were deleted.
    """
    deleted = 0
    try:
        yield c.DeleteDag(dag_id, dry_run=True)
        while runs := (yield _runs(dag_id)):
            for run in runs:
                yield c.DeleteRun(dag_id, run.run_id, with_dag=True)
                deleted += 1
        yield c.DeleteDag(dag_id)
    except Conflict as refused:
        if not deleted:
            raise
        what = f"{deleted:,} {'run was' if deleted == 1 else 'runs were'} deleted before"
        raise Conflict(f"{refused.message}; {what}", hint=refused.hint) from refused
    return deleted


def _runs(dag_id: str) -> c.ListRuns:
    return c.ListRuns(dag_id=dag_id, kinds=CARRIED_OUT, limit=_PAGE)
