"""Current triggers that fill the purge queue.

A trigger queues an object when its last reference is deleted or replaced, so that no statement can
omit that. Migrations hold frozen copies, and their tests compare them with these.
"""

# ruff: noqa: S608  (statements of constants alone)
from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import sqlalchemy as sa

REFERENCE: Final = '{"__holdfast_ref__":'
IN_PLACE: Final = '{"__holdfast_loc__":'
"""Prefixes of offloaded values: an object with a name of its own, or one overwritten in place."""
TABLES: Final = ("hf_task_entry", "hf_asset_entry", "hf_asset_history", "hf_staged_write")
EVENTS: Final = {"gone": "DELETE", "over": "UPDATE"}


def create_triggers(dialect: sa.Dialect) -> Iterator[str]:
    """Yield the statements that create all triggers."""
    key = dialect.identifier_preparer.quote("key")  # a reserved word on some databases
    for table in TABLES:
        queue = _queue_of_task(key) if table == "hf_task_entry" else _queue_of_asset(table, key)
        if dialect.name == "postgresql":
            body = f"BEGIN {queue}; RETURN NULL; END"
            yield (
                f"CREATE OR REPLACE FUNCTION {table}_unnamed() RETURNS trigger"
                f" LANGUAGE plpgsql AS $${body}$$"
            )
        for event, kind in EVENTS.items():
            when = _when(table, kind)
            head = f"{table}_{event} AFTER {kind} ON {table} FOR EACH ROW"
            match dialect.name:
                case "postgresql":
                    call = f"EXECUTE FUNCTION {table}_unnamed()"
                    yield f"CREATE TRIGGER {head} WHEN ({when}) {call}"
                case "sqlite":
                    yield f"CREATE TRIGGER {head} WHEN {when} BEGIN {queue}; END"
                case _:
                    body = f"BEGIN IF {when} THEN {queue}; END IF; END"
                    yield f"CREATE TRIGGER {head} {body}"


def drop_triggers(dialect: sa.Dialect) -> Iterator[str]:
    """Yield the statements that drop all triggers."""
    for table in TABLES:
        for event in EVENTS:
            on_table = f" ON {table}" if dialect.name == "postgresql" else ""
            yield f"DROP TRIGGER IF EXISTS {table}_{event}{on_table}"


def _when(table: str, kind: str) -> str:
    """Return a trigger's condition. A history step does not keep objects overwritten in place."""
    when = f"substr(OLD.value, 1, {len(REFERENCE)}) = '{REFERENCE}'"
    if table != "hf_asset_history":
        when = f"({when} OR substr(OLD.value, 1, {len(IN_PLACE)}) = '{IN_PLACE}')"
    return when + (" AND OLD.value <> NEW.value" if kind == "UPDATE" else "")


def _queue_of_task(key: str) -> str:
    """Return the statement that queues a task's object, to which only its own entry refers."""
    return (
        f"INSERT INTO hf_purge (ti_id, dag_id, run_id, task_id, map_index, {key}, value)"
        f" SELECT ti.ti_id, r.dag_id, r.run_id, ti.task_id, ti.map_index, OLD.{key}, OLD.value"
        " FROM hf_task_instance ti JOIN hf_run r ON r.id = ti.run WHERE ti.ti_id = OLD.ti_id"
    )


def _queue_of_asset(table: str, key: str) -> str:
    """Return the statement that queues an asset's object, unless its entry, its history or staged
    writes refer to it. Transactions that drop staged writes do not lock the asset, and may not see
    each other, so what they drop is always queued."""
    queue = (
        f"INSERT INTO hf_purge (name_digest, name, uri, {key}, value)"
        f" SELECT a.name_digest, a.name, a.uri, OLD.{key}, OLD.value"
        " FROM hf_asset a WHERE a.id = OLD.asset_id"
    )
    if table == "hf_staged_write":
        return queue
    in_place = f" AND substr(o.value, 1, {len(IN_PLACE)}) <> '{IN_PLACE}'"
    unnamed = " AND ".join(
        f"NOT EXISTS (SELECT 1 FROM {other} o WHERE o.asset_id = OLD.asset_id"
        f" AND o.{key} = OLD.{key} AND o.value = OLD.value"
        f"{in_place if other == 'hf_asset_history' else ''})"
        for other in TABLES[1:]
    )
    return f"{queue} AND {unnamed}"
