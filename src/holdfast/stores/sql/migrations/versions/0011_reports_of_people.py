"""Who ended a run, who reported an event of an asset, and the key of that report.

Where DDL commits by itself, a migration that was killed may have made a part already.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

from holdfast.stores.sql.tables import ExactText, LongText

revision = "0011"
down_revision = "0010"

INDEX = "ix_hf_asset_event_asset_id_key"


def upgrade() -> None:
    for table, columns in _new_columns().items():
        known = _columns(table)
        for column in columns:
            if column.name not in known:
                op.add_column(table, column)
    op.create_index(INDEX, "hf_asset_event", ["asset_id", "key"], unique=True, if_not_exists=True)


def downgrade() -> None:
    op.drop_index(INDEX, "hf_asset_event", if_exists=True)
    for table, columns in _new_columns().items():
        known = _columns(table)
        for column in columns:
            if column.name in known:
                op.drop_column(table, column.name)


def _new_columns() -> dict[str, list[sa.Column[Any]]]:
    return {
        "hf_run": [sa.Column("error", LongText())],
        "hf_asset_event": [sa.Column("reported_by", LongText()), sa.Column("key", ExactText(250))],
    }


def _columns(table: str) -> set[str]:
    return {column["name"] for column in sa.inspect(op.get_bind()).get_columns(table)}
