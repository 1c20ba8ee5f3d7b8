"""The first tables: runs, task instances, attempts, assets, and the entries of both stores."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from holdfast.stores.sql.tables import ExactText, LongText, TaskInstanceId, row_id

revision = "0001"
down_revision = None


def upgrade() -> None:
    op.create_table(
        "hf_asset",
        sa.Column("id", row_id(), nullable=False),
        sa.Column("name", ExactText(1500), nullable=False),
        sa.Column("uri", ExactText(1500), nullable=False),
        sa.Column("name_digest", sa.String(length=64), nullable=False),
        sa.Column("uri_digest", sa.String(length=64), nullable=False),
        sa.Column("by_hand", sa.Boolean(create_constraint=False), nullable=False),
        sa.Column("orphaned_at", sa.BigInteger),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("swept_revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_hf_asset"),
        sa.UniqueConstraint("name_digest", name="uq_hf_asset_name_digest"),
        sa.UniqueConstraint("uri_digest", name="uq_hf_asset_uri_digest"),
        sqlite_autoincrement=True,
    )
    op.create_table(
        "hf_run",
        sa.Column("id", row_id(), nullable=False),
        sa.Column("dag_id", ExactText(250), nullable=False),
        sa.Column("run_id", ExactText(250), nullable=False),
        sa.Column("external", sa.Boolean(create_constraint=False), nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_hf_run"),
        sa.UniqueConstraint("dag_id", "run_id", name="uq_hf_run_dag_id_run_id"),
    )
    op.create_table(
        "hf_asset_entry",
        sa.Column("id", row_id(), nullable=False),
        sa.Column("asset_id", sa.BigInteger, nullable=False),
        sa.Column("key", ExactText(512), nullable=False),
        sa.Column("value", LongText(), nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("writer", LongText()),
        sa.ForeignKeyConstraint(
            ["asset_id"], ["hf_asset.id"], name="fk_hf_asset_entry_asset_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_hf_asset_entry"),
        sa.UniqueConstraint("asset_id", "key", name="uq_hf_asset_entry_asset_id_key"),
    )
    op.create_table(
        "hf_asset_history",
        sa.Column("id", row_id(), nullable=False),
        sa.Column("asset_id", sa.BigInteger, nullable=False),
        sa.Column("key", ExactText(512), nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("previous", sa.BigInteger, nullable=False),
        sa.Column("value", LongText()),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("writer", LongText()),
        sa.ForeignKeyConstraint(
            ["asset_id"], ["hf_asset.id"], name="fk_hf_asset_history_asset_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_hf_asset_history"),
        sa.UniqueConstraint(
            "asset_id", "key", "version", name="uq_hf_asset_history_asset_id_key_version"
        ),
    )
    op.create_table(
        "hf_declaration",
        sa.Column("dag_id", ExactText(250), nullable=False),
        sa.Column("asset_id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(
            ["asset_id"], ["hf_asset.id"], name="fk_hf_declaration_asset_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("dag_id", "asset_id", name="pk_hf_declaration"),
    )
    op.create_index("ix_hf_declaration_asset_id", "hf_declaration", ["asset_id"])
    op.create_table(
        "hf_task_instance",
        sa.Column("ti_id", TaskInstanceId(), nullable=False),
        sa.Column("run", sa.BigInteger, nullable=False),
        sa.Column("task_id", ExactText(250), nullable=False),
        sa.Column("map_index", sa.Integer, nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("live_attempt", sa.Integer),
        sa.ForeignKeyConstraint(
            ["run"], ["hf_run.id"], name="fk_hf_task_instance_run", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("ti_id", name="pk_hf_task_instance"),
    )
    op.create_index("ix_hf_task_instance_run", "hf_task_instance", ["run"])
    op.create_table(
        "hf_attempt",
        sa.Column("ti_id", TaskInstanceId(), nullable=False),
        sa.Column("number", sa.Integer, autoincrement=False, nullable=False),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("succeeded", sa.Boolean(create_constraint=False)),
        sa.ForeignKeyConstraint(
            ["ti_id"], ["hf_task_instance.ti_id"], name="fk_hf_attempt_ti_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("ti_id", "number", name="pk_hf_attempt"),
    )
    op.create_table(
        "hf_staged_write",
        sa.Column("id", row_id(), nullable=False),
        sa.Column("ti_id", TaskInstanceId(), nullable=False),
        sa.Column("asset_id", sa.BigInteger, nullable=False),
        sa.Column("key", ExactText(512), nullable=False),
        sa.Column("value", LongText(), nullable=False),
        sa.Column("advances", sa.Boolean(create_constraint=False), nullable=False),
        sa.Column("if_version", sa.BigInteger),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.ForeignKeyConstraint(
            ["asset_id"], ["hf_asset.id"], name="fk_hf_staged_write_asset_id", ondelete="CASCADE"
        ),
        sa.ForeignKeyConstraint(
            ["ti_id"],
            ["hf_task_instance.ti_id"],
            name="fk_hf_staged_write_ti_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_hf_staged_write"),
        sa.UniqueConstraint(
            "ti_id", "asset_id", "key", name="uq_hf_staged_write_ti_id_asset_id_key"
        ),
    )
    op.create_index("ix_hf_staged_write_asset_id", "hf_staged_write", ["asset_id"])
    op.create_table(
        "hf_task_entry",
        sa.Column("id", row_id(), nullable=False),
        sa.Column("ti_id", TaskInstanceId(), nullable=False),
        sa.Column("key", ExactText(512), nullable=False),
        sa.Column("value", LongText(), nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("updated_at", sa.BigInteger, nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.Column("writer", LongText()),
        sa.ForeignKeyConstraint(
            ["ti_id"], ["hf_task_instance.ti_id"], name="fk_hf_task_entry_ti_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_hf_task_entry"),
        sa.UniqueConstraint("ti_id", "key", name="uq_hf_task_entry_ti_id_key"),
    )
    op.create_index("ix_hf_task_entry_expires_at_id", "hf_task_entry", ["expires_at", "id"])


def downgrade() -> None:
    for name in (
        "hf_task_entry",
        "hf_staged_write",
        "hf_attempt",
        "hf_task_instance",
        "hf_declaration",
        "hf_asset_history",
        "hf_asset_entry",
        "hf_run",
        "hf_asset",
    ):
        op.drop_table(name)
