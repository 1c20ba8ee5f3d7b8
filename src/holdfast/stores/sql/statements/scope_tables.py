"""The tables of one kind of scope, and conditions on them."""

from __future__ import annotations

from typing import Any, NamedTuple

import sqlalchemy as sa

from holdfast.stores.sql import tables as t

Select = sa.Select[Any]


class ScopeTables(NamedTuple):
    """Tables of one kind of scope: of the owner, of its entries, and of their history."""

    owner: sa.Table
    entry: sa.Table
    history: sa.Table | None

    @property
    def id(self) -> sa.Column[Any]:
        """The owner's primary key."""
        return next(iter(self.owner.primary_key.columns))

    @property
    def owner_id(self) -> sa.Column[Any]:
        """The entry's foreign key to its owner."""
        return next(iter(self.entry.foreign_keys)).parent


TASKS = ScopeTables(t.task_instance, t.task_entry, None)
ASSETS = ScopeTables(t.asset, t.asset_entry, t.asset_history)


def owned(tables: ScopeTables, by: str) -> sa.ColumnElement[bool]:
    """Return the condition for entries of the owner that column `by` finds."""
    if by == tables.id.name:
        return tables.owner_id == sa.bindparam("owner")
    found = sa.select(tables.id).where(tables.owner.c[by] == sa.bindparam("owner"))
    return tables.owner_id == found.scalar_subquery()


def of_key(table: sa.Table) -> sa.ColumnElement[bool]:
    return table.c.key == sa.bindparam("key")
