"""Why a run failed that a person has ended.

Where DDL commits by itself, a migration that was killed may have made it already.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from holdfast.stores.sql.tables import LongText

revision = "0011"
down_revision = "0009"


def upgrade() -> None:
    if "error" not in _columns("hf_run"):
        op.add_column("hf_run", sa.Column("error", LongText()))


def downgrade() -> None:
    if "error" in _columns("hf_run"):
        op.drop_column("hf_run", "error")


def _columns(table: str) -> set[str]:
    return {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}
