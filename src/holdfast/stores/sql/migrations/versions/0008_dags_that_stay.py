"""DAGs that stay while their files are away: when each was first known, last seen, and called
stale.

Where DDL commits by itself, a migration that was killed may have added a column already.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from holdfast.stores.sql.migrations import changes

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    changes.add_columns({"hf_dag": _new_columns()})
    op.execute("UPDATE hf_dag SET created_at = saved_at WHERE created_at = 0")


def downgrade() -> None:
    changes.drop_columns({"hf_dag": _new_columns()})


def _new_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("created_at", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("seen_at", sa.BigInteger),
        sa.Column("stale_at", sa.BigInteger),
    ]
