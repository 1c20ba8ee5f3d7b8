"""DAGs that stay while their files are away: when each was first known, last seen, and called
stale.

Where DDL commits by itself, a migration that was killed may have added a column already.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"


def upgrade() -> None:
    known = _columns()
    for column in _new_columns():
        if column.name not in known:
            op.add_column("hf_dag", column)
    op.execute("UPDATE hf_dag SET created_at = saved_at WHERE created_at = 0")


def downgrade() -> None:
    known = _columns()
    for column in _new_columns():
        if column.name in known:
            op.drop_column("hf_dag", column.name)


def _new_columns() -> list[sa.Column[Any]]:
    return [
        sa.Column("created_at", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("seen_at", sa.BigInteger),
        sa.Column("stale_at", sa.BigInteger),
    ]


def _columns() -> set[str]:
    return {column["name"] for column in sa.inspect(op.get_bind()).get_columns("hf_dag")}
