"""Pools, the slots that attempts take up, and why tasks wait.

Where DDL commits by itself, a migration that was killed may have made a part already.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from holdfast.stores.sql.migrations import changes
from holdfast.stores.sql.tables import ExactText, LongText

revision = "0009"
down_revision = "0008"

INDEX = "ix_hf_attempt_pool_ended_at"


def upgrade() -> None:
    changes.add_columns(_new_columns())
    changes.create_index(INDEX, "hf_attempt", ["pool", "ended_at"])
    op.create_table(
        "hf_pool",
        sa.Column("name", ExactText(250), nullable=False),
        sa.Column("slots", sa.Integer, nullable=False),
        sa.Column("description", LongText(), nullable=False),
        sa.PrimaryKeyConstraint("name", name="pk_hf_pool"),
        if_not_exists=True,
    )


def downgrade() -> None:
    op.drop_table("hf_pool", if_exists=True)
    changes.drop_index(INDEX, "hf_attempt")
    changes.drop_columns(_new_columns())


def _new_columns() -> dict[str, list[sa.Column[Any]]]:
    return {
        "hf_run": [sa.Column("waits", LongText())],
        "hf_attempt": [sa.Column("pool", ExactText(250)), sa.Column("pool_slots", sa.Integer)],
    }
