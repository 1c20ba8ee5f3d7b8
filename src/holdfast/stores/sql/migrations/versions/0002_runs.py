"""Runs that Holdfast carries out: states, leases, results, DAGs, asset events and watchers.

Where DDL commits by itself, a migration that was killed has done part of this. So each step looks
whether it is done already, in both directions.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from holdfast.stores.sql.migrations import changes
from holdfast.stores.sql.tables import ExactText, LongText, TaskInstanceId

revision = "0002"
down_revision = "0001"


def _bigint(name: str) -> sa.Column[Any]:
    return sa.Column(name, sa.BigInteger)


def _counter(name: str, kind: Any) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False, server_default="0")


def _new_columns() -> dict[str, list[sa.Column[Any]]]:
    """What existing tables get. A column cannot be added without a default where it is not NULL."""
    return {
        "hf_run": [
            sa.Column("kind", ExactText(20), nullable=False, server_default="external"),
            sa.Column("state", ExactText(20), nullable=False, server_default="running"),
            _bigint("logical_date"),
            _bigint("data_interval_start"),
            _bigint("data_interval_end"),
            sa.Column("conf", LongText()),
            _bigint("started_at"),
            _bigint("ended_at"),
            sa.Column("owner", LongText()),
            _bigint("leased_until"),
        ],
        "hf_task_instance": [
            sa.Column("state", ExactText(20)),
            _counter("failures", sa.Integer),
            _counter("interruptions", sa.Integer),
            _bigint("ready_at"),
            _bigint("started_at"),
            _bigint("ended_at"),
            sa.Column("error", LongText()),
        ],
        "hf_attempt": [
            sa.Column("outcome", ExactText(20)),
            sa.Column("error", LongText()),
            sa.Column("exit_status", sa.Integer),
            sa.Column("signal", sa.Integer),
            sa.Column("worker", LongText()),
            _bigint("leased_until"),
        ],
        "hf_asset": [_counter("event_count", sa.BigInteger)],
    }


_INDEXES = {
    "hf_run": ["state"],
    "hf_dag": ["file_digest"],
    "hf_asset_event": ["at"],
    "hf_asset_alias": ["asset_id"],
    "hf_asset_schedule": ["asset_id"],
    "hf_run_event": ["asset_id", "number"],
}

_NEW_TABLES = (
    "hf_result",
    "hf_dag_file",
    "hf_dag",
    "hf_asset_event",
    "hf_asset_alias",
    "hf_asset_schedule",
    "hf_run_event",
    "hf_watcher",
)


def upgrade() -> None:
    changes.add_columns(_new_columns())
    if changes.has_column("hf_run", "external"):
        op.execute("UPDATE hf_run SET kind = 'manual' WHERE NOT external")
        op.drop_column("hf_run", "external")
    if changes.has_column("hf_attempt", "succeeded"):
        op.execute(
            "UPDATE hf_attempt SET outcome = CASE WHEN succeeded THEN 'success' ELSE 'failed' END "
            "WHERE succeeded IS NOT NULL"
        )
        op.drop_column("hf_attempt", "succeeded")
    op.execute(
        "UPDATE hf_task_instance SET "
        "started_at = (SELECT started_at FROM hf_attempt a WHERE a.ti_id = hf_task_instance.ti_id "
        "AND a.number = hf_task_instance.attempt), "
        "ended_at = (SELECT ended_at FROM hf_attempt a WHERE a.ti_id = hf_task_instance.ti_id "
        "AND a.number = hf_task_instance.attempt), "
        "state = CASE WHEN live_attempt IS NOT NULL THEN 'running' ELSE "
        "(SELECT outcome FROM hf_attempt a WHERE a.ti_id = hf_task_instance.ti_id "
        "AND a.number = hf_task_instance.attempt) END"
    )
    _create_tables()
    for table, indexed in _INDEXES.items():
        changes.create_index(_index(table), table, indexed)


def downgrade() -> None:
    for table in reversed(_NEW_TABLES):
        op.drop_table(table, if_exists=True)
    changes.add_columns({"hf_run": [_before("external", nullable=False)]})
    if changes.has_column("hf_run", "kind"):
        op.execute("UPDATE hf_run SET external = (kind = 'external')")
    changes.add_columns({"hf_attempt": [_before("succeeded", nullable=True)]})
    if changes.has_column("hf_attempt", "outcome"):
        op.execute(
            "UPDATE hf_attempt SET succeeded = (outcome = 'success') WHERE outcome IS NOT NULL"
        )
    changes.drop_index(_index("hf_run"), "hf_run")
    changes.drop_columns(_new_columns())


def _before(name: str, nullable: bool) -> sa.Column[Any]:
    """A column of the revision before."""
    default = None if nullable else sa.true()
    kind = sa.Boolean(create_constraint=False)
    return sa.Column(name, kind, nullable=nullable, server_default=default)


def _index(table: str) -> str:
    return f"ix_{table}_{'_'.join(_INDEXES[table])}"


def _asset_of(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["asset_id"], ["hf_asset.id"], name=f"fk_{table}_asset_id", ondelete="CASCADE"
    )


def _create_tables() -> None:
    op.create_table(
        "hf_result",
        sa.Column("ti_id", TaskInstanceId(), nullable=False),
        sa.Column("key", ExactText(512), nullable=False),
        sa.Column("value", LongText(), nullable=False),
        sa.ForeignKeyConstraint(
            ["ti_id"], ["hf_task_instance.ti_id"], name="fk_hf_result_ti_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("ti_id", "key", name="pk_hf_result"),
        if_not_exists=True,
    )
    op.create_table(
        "hf_dag_file",
        sa.Column("digest", sa.String(length=64), nullable=False),
        sa.Column("file", LongText(), nullable=False),
        sa.Column("saved_at", sa.BigInteger, nullable=False),
        sa.Column("error", LongText()),
        sa.PrimaryKeyConstraint("digest", name="pk_hf_dag_file"),
        if_not_exists=True,
    )
    op.create_table(
        "hf_dag",
        sa.Column("dag_id", ExactText(250), nullable=False),
        sa.Column("file_digest", sa.String(length=64), nullable=False),
        sa.Column("spec", LongText(), nullable=False),
        sa.Column("paused", sa.Boolean(create_constraint=False), nullable=False),
        sa.Column("scheduled_until", sa.BigInteger),
        sa.Column("saved_at", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["file_digest"],
            ["hf_dag_file.digest"],
            name="fk_hf_dag_file_digest",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("dag_id", name="pk_hf_dag"),
        if_not_exists=True,
    )
    op.create_table(
        "hf_asset_event",
        sa.Column("asset_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("extra", LongText(), nullable=False),
        sa.Column("source", LongText()),
        _asset_of("hf_asset_event"),
        sa.PrimaryKeyConstraint("asset_id", "number", name="pk_hf_asset_event"),
        if_not_exists=True,
    )
    op.create_table(
        "hf_asset_alias",
        sa.Column("alias_digest", sa.String(length=64), nullable=False),
        sa.Column("asset_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("alias", ExactText(1500), nullable=False),
        sa.Column("since", sa.BigInteger, nullable=False),
        _asset_of("hf_asset_alias"),
        sa.PrimaryKeyConstraint("alias_digest", "asset_id", name="pk_hf_asset_alias"),
        if_not_exists=True,
    )
    op.create_table(
        "hf_asset_schedule",
        sa.Column("dag_id", ExactText(250), nullable=False),
        sa.Column("asset_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("consumed", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["dag_id"], ["hf_dag.dag_id"], name="fk_hf_asset_schedule_dag_id", ondelete="CASCADE"
        ),
        _asset_of("hf_asset_schedule"),
        sa.PrimaryKeyConstraint("dag_id", "asset_id", name="pk_hf_asset_schedule"),
        if_not_exists=True,
    )
    op.create_table(
        "hf_run_event",
        sa.Column("run", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("asset_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("number", sa.BigInteger, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(
            ["run"], ["hf_run.id"], name="fk_hf_run_event_run", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["asset_id", "number"],
            ["hf_asset_event.asset_id", "hf_asset_event.number"],
            name="fk_hf_run_event_asset_id_number",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("run", "asset_id", "number", name="pk_hf_run_event"),
        if_not_exists=True,
    )
    op.create_table(
        "hf_watcher",
        sa.Column("asset_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("name", ExactText(250), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("owner", LongText(), nullable=False),
        sa.Column("leased_until", sa.BigInteger, nullable=False),
        _asset_of("hf_watcher"),
        sa.PrimaryKeyConstraint("asset_id", "name", name="pk_hf_watcher"),
        if_not_exists=True,
    )
