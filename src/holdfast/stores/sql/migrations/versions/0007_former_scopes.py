"""What must not be taken for something else that came before it under the same name: how far
deleted runs and assets had come, and the items that mapped instances worked on.

Where DDL commits by itself, a migration that was killed may have made a table already.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from holdfast.stores.sql.tables import ExactText, TaskInstanceId

revision = "0007"
down_revision = "0006"


def upgrade() -> None:
    op.create_table(
        "hf_deleted_run",
        sa.Column("dag_id", ExactText(250), nullable=False),
        sa.Column("run_id", ExactText(250), nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("dag_id", "run_id", name="pk_hf_deleted_run"),
        if_not_exists=True,
    )
    op.create_table(
        "hf_deleted_asset",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("revision", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_hf_deleted_asset"),
        if_not_exists=True,
    )
    op.create_table(
        "hf_mapped_item",
        sa.Column("ti_id", TaskInstanceId(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("ti_id", name="pk_hf_mapped_item"),
        sa.ForeignKeyConstraint(
            ["ti_id"],
            ["hf_task_instance.ti_id"],
            name="fk_hf_mapped_item_ti_id",
            ondelete="CASCADE",
        ),
        if_not_exists=True,
    )


def downgrade() -> None:
    op.drop_table("hf_mapped_item", if_exists=True)
    op.drop_table("hf_deleted_asset", if_exists=True)
    op.drop_table("hf_deleted_run", if_exists=True)
