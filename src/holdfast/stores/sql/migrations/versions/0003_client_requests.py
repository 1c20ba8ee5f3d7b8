"""The latest request of each client, with its answer: what is sent again is not done again.

Where DDL commits by itself, a migration that was killed may have made the table already.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from holdfast.stores.sql.tables import ExactText, LongText

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "hf_client_request",
        sa.Column("client", ExactText(64), nullable=False),
        sa.Column("number", sa.BigInteger, nullable=False),
        sa.Column("command_digest", sa.String(64), nullable=False),
        sa.Column("answer", LongText(), nullable=False),
        sa.Column("answered_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("client", name="pk_hf_client_request"),
        if_not_exists=True,
    )


def downgrade() -> None:
    op.drop_table("hf_client_request", if_exists=True)
