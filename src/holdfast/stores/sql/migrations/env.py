"""Runs the migrations on the connection that `holdfast.stores.sql.schema` hands over."""

from __future__ import annotations

from alembic import context

from holdfast.stores.sql.schema import VERSION_TABLE
from holdfast.stores.sql.tables import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    version_table=VERSION_TABLE,
    transactional_ddl=False,  # the caller holds the transaction
)
context.run_migrations()
