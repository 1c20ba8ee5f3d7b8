"""Bulk loads: what they have brought, until they are finished.

Where DDL commits by itself, a migration that was killed may have made a table already.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from holdfast.stores.sql.tables import ExactText, LongText, TaskInstanceId, row_id

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    op.create_table(
        "hf_load",
        sa.Column("id", row_id(), nullable=False),
        sa.Column("name", ExactText(64), nullable=False),
        sa.Column("writer", LongText(), nullable=False),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_hf_load"),
        sa.UniqueConstraint("name", name="uq_hf_load_name"),
        if_not_exists=True,
    )
    op.create_table(
        "hf_load_entry",
        sa.Column("load", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("part", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("number", sa.BigInteger, nullable=False, autoincrement=False),
        sa.Column("ti_id", TaskInstanceId()),
        sa.Column("dag_id", ExactText(250)),
        sa.Column("run_id", ExactText(250)),
        sa.Column("task_id", ExactText(250)),
        sa.Column("map_index", sa.Integer),
        sa.Column("asset_id", sa.BigInteger),
        sa.Column("key", ExactText(512), nullable=False),
        sa.Column("value", LongText(), nullable=False),
        sa.Column("expires_at", sa.BigInteger),
        sa.PrimaryKeyConstraint("load", "part", "number", name="pk_hf_load_entry"),
        if_not_exists=True,
    )
    if op.get_context().dialect.name == "postgresql":
        op.execute("ALTER TABLE hf_load_entry SET UNLOGGED")


def downgrade() -> None:
    op.drop_table("hf_load_entry", if_exists=True)
    op.drop_table("hf_load", if_exists=True)
