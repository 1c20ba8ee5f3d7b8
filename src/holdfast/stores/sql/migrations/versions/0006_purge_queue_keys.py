"""Indexes that find the objects of a key in the purge queue.

Without the key in them, to reserve the objects of one task or asset looked at all of its objects
for each. Where DDL commits by itself, a migration that was killed may have made a part already.
"""

from __future__ import annotations

from holdfast.stores.sql.migrations import changes

revision = "0006"
down_revision = "0005"

OWNERS = ("ti_id", "name_digest")


def upgrade() -> None:
    for owner in OWNERS:
        changes.create_index(f"ix_hf_purge_{owner}_key", "hf_purge", [owner, "key"])
        changes.drop_index(f"ix_hf_purge_{owner}", "hf_purge")


def downgrade() -> None:
    for owner in OWNERS:
        changes.create_index(f"ix_hf_purge_{owner}", "hf_purge", [owner])
        changes.drop_index(f"ix_hf_purge_{owner}_key", "hf_purge")
