"""Who ended a run, who reported an event of an asset, and the key of that report.

Where DDL commits by itself, a migration that was killed may have made a part already.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from holdfast.stores.sql.migrations import changes
from holdfast.stores.sql.tables import ExactText, LongText

revision = "0011"
down_revision = "0010"

INDEX = "ix_hf_asset_event_asset_id_key"


def upgrade() -> None:
    changes.add_columns(_new_columns())
    changes.create_index(INDEX, "hf_asset_event", ["asset_id", "key"], unique=True)


def downgrade() -> None:
    changes.drop_index(INDEX, "hf_asset_event")
    changes.drop_columns(_new_columns())


def _new_columns() -> dict[str, list[sa.Column[Any]]]:
    return {
        "hf_run": [sa.Column("error", LongText())],
        "hf_asset_event": [sa.Column("reported_by", LongText()), sa.Column("key", ExactText(250))],
    }
