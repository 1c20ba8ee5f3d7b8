"""The purge queue: objects in the workers' storage that are to be deleted.

The values at a place are overwritten there, so an old step of a history does not keep one. Triggers
fill the queue, whatever removes or replaces a reference: no statement, of now or later, can
forget to. Where DDL commits by itself, a migration that was killed may have made a part already.
"""

# ruff: noqa: S608  (statements of constants alone)
from __future__ import annotations

from collections.abc import Iterator

import sqlalchemy as sa
from alembic import op

from holdfast.stores.sql.migrations import changes
from holdfast.stores.sql.tables import ExactText, LongText, TaskInstanceId, row_id

revision = "0005"
down_revision = "0004"

REFERENCE, PLACE = '{"__holdfast_ref__":', '{"__holdfast_loc__":'
TABLES = ("hf_task_entry", "hf_asset_entry", "hf_asset_history", "hf_staged_write")
EVENTS = {"gone": "DELETE", "over": "UPDATE"}


def upgrade() -> None:
    op.create_table(
        "hf_purge",
        sa.Column("id", row_id(), nullable=False),
        sa.Column("ti_id", TaskInstanceId()),
        sa.Column("dag_id", ExactText(250)),
        sa.Column("run_id", ExactText(250)),
        sa.Column("task_id", ExactText(250)),
        sa.Column("map_index", sa.Integer),
        sa.Column("name_digest", sa.String(64)),
        sa.Column("name", ExactText(1500)),
        sa.Column("uri", ExactText(1500)),
        sa.Column("key", ExactText(512), nullable=False),
        sa.Column("value", LongText(), nullable=False),
        sa.Column("due_at", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("taken_until", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("taker", ExactText(64)),
        sa.Column("reservation", ExactText(64)),
        sa.Column("tracked", sa.Integer, nullable=False, server_default="0"),
        sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
        sa.Column("error", LongText()),
        sa.PrimaryKeyConstraint("id", name="pk_hf_purge"),
        if_not_exists=True,
    )
    for column in ("due_at", "ti_id", "name_digest"):
        changes.create_index(f"ix_hf_purge_{column}", "hf_purge", [column])
    _drop_triggers()  # MySQL has CREATE TRIGGER IF NOT EXISTS from 8.0.29 on
    for statement in _triggers():
        op.get_bind().exec_driver_sql(statement)


def downgrade() -> None:
    _drop_triggers()
    if _dialect() == "postgresql":
        for table in TABLES:
            op.get_bind().exec_driver_sql(f"DROP FUNCTION IF EXISTS {table}_unnamed()")
    op.drop_table("hf_purge", if_exists=True)


def _drop_triggers() -> None:
    on_table = " ON {}" if _dialect() == "postgresql" else ""
    for table in TABLES:
        for event in EVENTS:
            drop = f"DROP TRIGGER IF EXISTS {table}_{event}" + on_table.format(table)
            op.get_bind().exec_driver_sql(drop)


def _dialect() -> str:
    return op.get_context().dialect.name


def _key() -> str:
    """A reserved word on some databases."""
    return op.get_context().dialect.identifier_preparer.quote("key")


def _triggers() -> Iterator[str]:
    for table in TABLES:
        add = _add_task() if table == "hf_task_entry" else _add_asset(table)
        if _dialect() == "postgresql":
            body = f"BEGIN {add}; RETURN NULL; END"
            yield (
                f"CREATE OR REPLACE FUNCTION {table}_unnamed() RETURNS trigger"
                f" LANGUAGE plpgsql AS $${body}$$"
            )
        for event, kind in EVENTS.items():
            yield _trigger(f"{table}_{event}", kind, table, add)


def _trigger(name: str, kind: str, table: str, add: str) -> str:
    was = f"substr(OLD.value, 1, {len(REFERENCE)}) = '{REFERENCE}'"
    if table != "hf_asset_history":
        was = f"({was} OR substr(OLD.value, 1, {len(PLACE)}) = '{PLACE}')"
    if kind == "UPDATE":
        was += " AND OLD.value <> NEW.value"
    match _dialect():
        case "postgresql":
            return (
                f"CREATE TRIGGER {name} AFTER {kind} ON {table} FOR EACH ROW"
                f" WHEN ({was}) EXECUTE FUNCTION {table}_unnamed()"
            )
        case "sqlite":
            return (
                f"CREATE TRIGGER {name} AFTER {kind} ON {table} FOR EACH ROW"
                f" WHEN {was} BEGIN {add}; END"
            )
        case _:
            return (
                f"CREATE TRIGGER {name} AFTER {kind} ON {table} FOR EACH ROW"
                f" BEGIN IF {was} THEN {add}; END IF; END"
            )


def _add_task() -> str:
    """Only its own entry names an object of a task instance."""
    key = _key()
    return (
        f"INSERT INTO hf_purge (ti_id, dag_id, run_id, task_id, map_index, {key}, value)"
        f" SELECT ti.ti_id, r.dag_id, r.run_id, ti.task_id, ti.map_index, OLD.{key}, OLD.value"
        " FROM hf_task_instance ti JOIN hf_run r ON r.id = ti.run WHERE ti.ti_id = OLD.ti_id"
    )


def _add_asset(table: str) -> str:
    """Its entry, its history and staged writes may name the same object. Those who drop staged
    writes do not lock the asset, and may not see each other: what they drop is queued always."""
    key = _key()
    if table == "hf_staged_write":
        return (
            f"INSERT INTO hf_purge (name_digest, name, uri, {key}, value)"
            f" SELECT a.name_digest, a.name, a.uri, OLD.{key}, OLD.value"
            " FROM hf_asset a WHERE a.id = OLD.asset_id"
        )
    unnamed = " AND ".join(
        f"NOT EXISTS (SELECT 1 FROM {table} o WHERE o.asset_id = OLD.asset_id"
        f" AND o.{key} = OLD.{key} AND o.value = OLD.value{_counts(table)})"
        for table in TABLES[1:]
    )
    return (
        f"INSERT INTO hf_purge (name_digest, name, uri, {key}, value)"
        f" SELECT a.name_digest, a.name, a.uri, OLD.{key}, OLD.value"
        f" FROM hf_asset a WHERE a.id = OLD.asset_id AND {unnamed}"
    )


def _counts(table: str) -> str:
    if table != "hf_asset_history":
        return ""
    return f" AND substr(o.value, 1, {len(PLACE)}) <> '{PLACE}'"
