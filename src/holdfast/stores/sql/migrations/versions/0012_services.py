"""Signs of life of schedulers and triggerers, with their figures."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from holdfast.stores.sql.tables import ExactText, LongText

revision = "0012"
down_revision = "0011"


def upgrade() -> None:
    op.create_table(
        "hf_service",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("kind", ExactText(20), nullable=False),
        sa.Column("process", LongText(), nullable=False),
        sa.Column("started_at", sa.BigInteger, nullable=False),
        sa.Column("seen_at", sa.BigInteger, nullable=False),
        sa.Column("lease", sa.BigInteger, nullable=False),
        sa.Column("figures", LongText()),
        sa.PrimaryKeyConstraint("digest", name="pk_hf_service"),
        if_not_exists=True,
    )


def downgrade() -> None:
    op.drop_table("hf_service", if_exists=True)
