"""Alerts, how far their delivery is, and since when an asset is declared."""

from __future__ import annotations

import time

import sqlalchemy as sa
from alembic import op

from holdfast.stores.sql.migrations.changes import Columns, add_columns, drop_columns
from holdfast.stores.sql.tables import ExactText, LongText, row_id

revision = "0013"
down_revision = "0012"


def upgrade() -> None:
    op.create_table(
        "hf_alert",
        sa.Column("id", row_id(), nullable=False),
        sa.Column("channel", ExactText(20), nullable=False),
        sa.Column("kind", ExactText(20), nullable=False),
        sa.Column("subject", sa.String(64)),
        sa.Column("facts", LongText(), nullable=False),
        sa.Column("raised_at", sa.BigInteger, nullable=False),
        sa.Column("resolved_at", sa.BigInteger),
        sa.Column("delivered", ExactText(20)),
        sa.Column("tries", sa.Integer, nullable=False),
        sa.Column("due_at", sa.BigInteger),
        sa.Column("error", LongText()),
        sa.PrimaryKeyConstraint("id", name="pk_hf_alert"),
        sa.UniqueConstraint("channel", "subject", name="uq_hf_alert_channel_subject"),
        sa.Index("ix_hf_alert_channel_due_at", "channel", "due_at"),
        sqlite_autoincrement=True,
        if_not_exists=True,
    )
    add_columns(_new_columns())
    asset = sa.table("hf_asset", sa.column("created_at", sa.BigInteger))
    known = sa.update(asset).where(asset.c.created_at == 0)
    op.execute(known.values(created_at=time.time_ns() // 1000))


def downgrade() -> None:
    op.drop_table("hf_alert", if_exists=True)
    drop_columns(_new_columns())


def _new_columns() -> Columns:
    created_at = sa.Column("created_at", sa.BigInteger, nullable=False, server_default="0")
    return {"hf_asset": [created_at]}
