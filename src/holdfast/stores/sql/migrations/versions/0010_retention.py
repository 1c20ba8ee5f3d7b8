"""Ends of external runs, and an index by which the newest runs of a DAG are found."""

# ruff: noqa: S608  (statements of constants alone)
from __future__ import annotations

from alembic import op

from holdfast.stores.sql.migrations import changes

revision = "0010"
down_revision = "0009"

INDEX = "ix_hf_run_dag_id_id"

_STATES = "SELECT 1 FROM hf_task_instance ti WHERE ti.run = hf_run.id AND ti.state"
_UNFINISHED = f"EXISTS ({_STATES} IN ('scheduled', 'running', 'up_for_retry'))"
_FAILED = f"EXISTS ({_STATES} IN ('failed', 'upstream_failed'))"
_ENDED = f"EXISTS ({_STATES} IS NOT NULL)"
_ATTEMPTS = (
    "FROM hf_attempt a JOIN hf_task_instance ti ON ti.ti_id = a.ti_id WHERE ti.run = hf_run.id"
)


def upgrade() -> None:
    changes.create_index(INDEX, "hf_run", ["dag_id", "id"])
    op.execute(
        "UPDATE hf_run SET"
        f" started_at = (SELECT min(a.started_at) {_ATTEMPTS}),"
        f" ended_at = CASE WHEN {_UNFINISHED} THEN NULL"
        f" ELSE (SELECT max(a.ended_at) {_ATTEMPTS}) END,"
        f" state = CASE WHEN {_UNFINISHED} THEN 'running' WHEN {_FAILED} THEN 'failed'"
        f" WHEN {_ENDED} THEN 'success' ELSE 'idle' END"
        " WHERE kind = 'external'"
    )


def downgrade() -> None:
    op.execute(
        "UPDATE hf_run SET state = 'running', started_at = NULL, ended_at = NULL"
        " WHERE kind = 'external'"
    )
    changes.drop_index(INDEX, "hf_run")
