"""Changes of tables that take effect once.

Where DDL commits implicitly, a killed migration may have made some of its changes already. MySQL
has no IF EXISTS for columns and indexes, so the database is asked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import sqlalchemy as sa
from alembic import op

Columns: TypeAlias = Mapping[str, Sequence[sa.Column[Any]]]
"""Columns, by the name of their table."""


def add_columns(columns: Columns) -> None:
    """Add the columns that are missing."""
    for table, added in columns.items():
        for column in added:
            if not has_column(table, column.name):
                op.add_column(table, column)


def drop_columns(columns: Columns) -> None:
    """Drop the columns that are present."""
    for table, dropped in columns.items():
        for column in dropped:
            if has_column(table, column.name):
                op.drop_column(table, column.name)


def create_index(name: str, table: str, columns: Sequence[str], *, unique: bool = False) -> None:
    """Create an index if it is missing."""
    if not _has_index(table, name):
        op.create_index(name, table, columns, unique=unique)


def drop_index(name: str, table: str) -> None:
    """Drop an index if it is present."""
    if _has_index(table, name):
        op.drop_index(name, table)


def has_column(table: str, name: str) -> bool:
    """Return whether a table has the column."""
    return any(one["name"] == name for one in sa.inspect(op.get_bind()).get_columns(table))


def _has_index(table: str, name: str) -> bool:
    return any(one["name"] == name for one in sa.inspect(op.get_bind()).get_indexes(table))
