"""Tables of the database.

Times are microseconds since 1970 in UTC: exact and alike on every database. The migrations create
these tables; a test compares the two descriptions. Code for one database is imported on use,
because each takes a while to load.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from holdfast.model.value import MAX_KEY_LENGTH
from holdfast.portable.identifier import MAX_ASSET_LENGTH, MAX_ID_LENGTH


class ExactText(sa.types.TypeDecorator[str]):
    """Text of limited length that compares by code points: `A` is not `a`, and `a ` is not `a`."""

    impl = sa.String
    cache_ok = True

    def __init__(self, length: int) -> None:
        super().__init__(length)
        self.length = length

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        if dialect.name == "postgresql":
            return dialect.type_descriptor(sa.String(self.length, collation="C"))
        if dialect.name in ("mysql", "mariadb"):
            from sqlalchemy.dialects import mysql

            # The plain `utf8mb4_bin` pads with spaces, so that `a` would equal `a `.
            mariadb = getattr(dialect, "is_mariadb", False)
            collation = "utf8mb4_nopad_bin" if mariadb else "utf8mb4_0900_bin"
            text = mysql.VARCHAR(self.length, charset="utf8mb4", collation=collation)
            return dialect.type_descriptor(text)
        return dialect.type_descriptor(sa.String(self.length))


class TaskInstanceId(sa.types.TypeDecorator[str]):
    """A `ti_id`, passed as text; PostgreSQL stores it in its own UUID type."""

    impl = sa.CHAR(36)
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        if dialect.name == "postgresql":
            from sqlalchemy.dialects import postgresql

            return dialect.type_descriptor(postgresql.UUID(as_uuid=False))
        if dialect.name in ("mysql", "mariadb"):
            from sqlalchemy.dialects import mysql

            return dialect.type_descriptor(mysql.CHAR(36, charset="ascii", collation="ascii_bin"))
        return dialect.type_descriptor(sa.CHAR(36))


class LongText(sa.types.TypeDecorator[str]):
    """Text of any length."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        if dialect.name in ("mysql", "mariadb"):
            from sqlalchemy.dialects import mysql

            text = mysql.LONGTEXT(charset="utf8mb4", collation="utf8mb4_bin")
            return dialect.type_descriptor(text)
        return dialect.type_descriptor(sa.Text())


def row_id() -> sa.types.TypeEngine[int]:
    """Return the type of an auto-incremented integer, which in SQLite has to be INTEGER."""
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


metadata = sa.MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)

_digest = sa.String(64)
_word = ExactText(20)
"""A state, kind or outcome of `holdfast.model.run`."""


def _cascade(target: str) -> sa.ForeignKey:
    return sa.ForeignKey(target, ondelete="CASCADE")


run = sa.Table(
    "hf_run",
    metadata,
    sa.Column("id", row_id(), primary_key=True),
    sa.Column("dag_id", ExactText(MAX_ID_LENGTH), nullable=False),
    sa.Column("run_id", ExactText(MAX_ID_LENGTH), nullable=False),
    sa.Column("kind", _word, nullable=False, server_default="external"),
    sa.Column("state", _word, nullable=False, server_default="running", index=True),
    sa.Column("logical_date", sa.BigInteger),
    sa.Column("data_interval_start", sa.BigInteger),
    sa.Column("data_interval_end", sa.BigInteger),
    sa.Column("conf", LongText()),
    sa.Column("created_at", sa.BigInteger, nullable=False),
    sa.Column("started_at", sa.BigInteger),
    sa.Column("ended_at", sa.BigInteger),
    sa.Column("owner", LongText()),
    sa.Column("leased_until", sa.BigInteger),
    sa.Column("waits", LongText()),
    sa.Column("error", LongText()),
    sa.UniqueConstraint("dag_id", "run_id"),
    sa.Index(None, "dag_id", "id"),
)
"""`owner` is the process that holds the run, until `leased_until`, or that has ended it. `waits`
are the reasons by task, as JSON, why tasks wait that could start otherwise. `error` says who failed
the run, where a person did."""

task_instance = sa.Table(
    "hf_task_instance",
    metadata,
    sa.Column("ti_id", TaskInstanceId(), primary_key=True),
    sa.Column("run", sa.BigInteger, _cascade("hf_run.id"), nullable=False, index=True),
    sa.Column("task_id", ExactText(MAX_ID_LENGTH), nullable=False),
    sa.Column("map_index", sa.Integer, nullable=False),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
    sa.Column("live_attempt", sa.Integer),
    sa.Column("state", _word),
    sa.Column("failures", sa.Integer, nullable=False, server_default="0"),
    sa.Column("interruptions", sa.Integer, nullable=False, server_default="0"),
    sa.Column("ready_at", sa.BigInteger),
    sa.Column("started_at", sa.BigInteger),
    sa.Column("ended_at", sa.BigInteger),
    sa.Column("error", LongText()),
)
"""`revision` counts the writes to the instance's entries and gives each its version; `attempt` is
the newest, `live_attempt` the one that may write, if any."""

attempt = sa.Table(
    "hf_attempt",
    metadata,
    sa.Column("ti_id", TaskInstanceId(), _cascade("hf_task_instance.ti_id"), primary_key=True),
    sa.Column("number", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("started_at", sa.BigInteger, nullable=False),
    sa.Column("ended_at", sa.BigInteger),
    sa.Column("outcome", _word),
    sa.Column("error", LongText()),
    sa.Column("exit_status", sa.Integer),
    sa.Column("signal", sa.Integer),
    sa.Column("worker", LongText()),
    sa.Column("leased_until", sa.BigInteger),
    sa.Column("pool", ExactText(MAX_ID_LENGTH)),
    sa.Column("pool_slots", sa.Integer),
    sa.Index(None, "pool", "ended_at"),
)

pool = sa.Table(
    "hf_pool",
    metadata,
    sa.Column("name", ExactText(MAX_ID_LENGTH), primary_key=True),
    sa.Column("slots", sa.Integer, nullable=False),
    sa.Column("description", LongText(), nullable=False),
)

mapped_item = sa.Table(
    "hf_mapped_item",
    metadata,
    sa.Column("ti_id", TaskInstanceId(), _cascade("hf_task_instance.ti_id"), primary_key=True),
    sa.Column("digest", _digest, nullable=False),
)
"""The item that the task store of a mapped instance belongs to."""

result = sa.Table(
    "hf_result",
    metadata,
    sa.Column("ti_id", TaskInstanceId(), _cascade("hf_task_instance.ti_id"), primary_key=True),
    sa.Column("key", ExactText(MAX_KEY_LENGTH), primary_key=True),
    sa.Column("value", LongText(), nullable=False),
)
"""Results that the newest attempt has stored for other tasks."""

task_entry = sa.Table(
    "hf_task_entry",
    metadata,
    sa.Column("id", row_id(), primary_key=True),
    sa.Column("ti_id", TaskInstanceId(), _cascade("hf_task_instance.ti_id"), nullable=False),
    sa.Column("key", ExactText(MAX_KEY_LENGTH), nullable=False),
    sa.Column("value", LongText(), nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.Column("expires_at", sa.BigInteger),
    sa.Column("writer", LongText()),
    sa.UniqueConstraint("ti_id", "key"),
    sa.Index(None, "expires_at", "id"),
)
"""`writer` is NULL where the task instance wrote its own entry, as it nearly always does."""

asset = sa.Table(
    "hf_asset",
    metadata,
    sa.Column("id", row_id(), primary_key=True),
    sa.Column("name", ExactText(MAX_ASSET_LENGTH), nullable=False),
    sa.Column("uri", ExactText(MAX_ASSET_LENGTH), nullable=False),
    sa.Column("name_digest", _digest, nullable=False, unique=True),
    sa.Column("uri_digest", _digest, nullable=False, unique=True),
    sa.Column("by_hand", sa.Boolean(create_constraint=False), nullable=False),
    sa.Column("orphaned_at", sa.BigInteger),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("swept_revision", sa.BigInteger, nullable=False),
    sa.Column("event_count", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("created_at", sa.BigInteger, nullable=False, server_default="0"),
    sqlite_autoincrement=True,
)
"""An id is never reused, because custom backends may identify an asset by it. Names and URIs are
too long for an index on some databases, so they are looked up by digest. `swept_revision` is the
revision at the last sweep: an orphan with a later one has state. `event_count` is the number of the
newest event."""

deleted_run = sa.Table(
    "hf_deleted_run",
    metadata,
    sa.Column("dag_id", ExactText(MAX_ID_LENGTH), primary_key=True),
    sa.Column("run_id", ExactText(MAX_ID_LENGTH), primary_key=True),
    sa.Column("revision", sa.BigInteger, nullable=False),
    sa.Column("attempt", sa.Integer, nullable=False),
)
"""The highest revision and attempt of a deleted run's task instances. When the run is created
again, its instances continue from there: no version and no attempt number is used twice."""

deleted_asset = sa.Table(
    "hf_deleted_asset",
    metadata,
    sa.Column("digest", _digest, primary_key=True),
    sa.Column("revision", sa.BigInteger, nullable=False),
)
"""The revision of a deleted asset, once by the digest of its name and once by that of its URI."""

declaration = sa.Table(
    "hf_declaration",
    metadata,
    sa.Column("dag_id", ExactText(MAX_ID_LENGTH), primary_key=True),
    sa.Column(
        "asset_id", sa.BigInteger, _cascade("hf_asset.id"), primary_key=True, autoincrement=False
    ),
    sa.Index(None, "asset_id"),
)

asset_entry = sa.Table(
    "hf_asset_entry",
    metadata,
    sa.Column("id", row_id(), primary_key=True),
    sa.Column("asset_id", sa.BigInteger, _cascade("hf_asset.id"), nullable=False),
    sa.Column("key", ExactText(MAX_KEY_LENGTH), nullable=False),
    sa.Column("value", LongText(), nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.Column("writer", LongText()),
    sa.UniqueConstraint("asset_id", "key"),
)

asset_history = sa.Table(
    "hf_asset_history",
    metadata,
    sa.Column("id", row_id(), primary_key=True),
    sa.Column("asset_id", sa.BigInteger, _cascade("hf_asset.id"), nullable=False),
    sa.Column("key", ExactText(MAX_KEY_LENGTH), nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("previous", sa.BigInteger, nullable=False),
    sa.Column("value", LongText()),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.Column("writer", LongText()),
    sa.UniqueConstraint("asset_id", "key", "version"),
)

staged_write = sa.Table(
    "hf_staged_write",
    metadata,
    sa.Column("id", row_id(), primary_key=True),
    sa.Column("ti_id", TaskInstanceId(), _cascade("hf_task_instance.ti_id"), nullable=False),
    sa.Column("asset_id", sa.BigInteger, _cascade("hf_asset.id"), nullable=False, index=True),
    sa.Column("key", ExactText(MAX_KEY_LENGTH), nullable=False),
    sa.Column("value", LongText(), nullable=False),
    sa.Column("advances", sa.Boolean(create_constraint=False), nullable=False),
    sa.Column("if_version", sa.BigInteger),
    sa.Column("updated_at", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("ti_id", "asset_id", "key"),
)
"""Writes of the live attempt that wait for its success; a new attempt begins with none."""

dag_file = sa.Table(
    "hf_dag_file",
    metadata,
    sa.Column("digest", _digest, primary_key=True),
    sa.Column("file", LongText(), nullable=False),
    sa.Column("saved_at", sa.BigInteger, nullable=False),
    sa.Column("error", LongText()),
)
"""`error` is the traceback if the file cannot be imported; NULL if it can. The row with an empty
file name is the placeholder for DAGs that no file holds."""

dag = sa.Table(
    "hf_dag",
    metadata,
    sa.Column("dag_id", ExactText(MAX_ID_LENGTH), primary_key=True),
    sa.Column("file_digest", _digest, _cascade("hf_dag_file.digest"), nullable=False, index=True),
    sa.Column("spec", LongText(), nullable=False),
    sa.Column("paused", sa.Boolean(create_constraint=False), nullable=False),
    sa.Column("scheduled_until", sa.BigInteger),
    sa.Column("saved_at", sa.BigInteger, nullable=False),
    sa.Column("created_at", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("seen_at", sa.BigInteger),
    sa.Column("stale_at", sa.BigInteger),
)

asset_event = sa.Table(
    "hf_asset_event",
    metadata,
    sa.Column(
        "asset_id", sa.BigInteger, _cascade("hf_asset.id"), primary_key=True, autoincrement=False
    ),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("at", sa.BigInteger, nullable=False, index=True),
    sa.Column("extra", LongText(), nullable=False),
    sa.Column("source", LongText()),
    sa.Column("reported_by", LongText()),
    sa.Column("key", ExactText(MAX_ID_LENGTH)),
    sa.Index(None, "asset_id", "key", unique=True),
)
"""`source` is the task, and `reported_by` the user, that reported the event; a watcher did where
both are NULL. `key` is the idempotency key of the report, if it has one."""

asset_alias = sa.Table(
    "hf_asset_alias",
    metadata,
    sa.Column("alias_digest", _digest, primary_key=True),
    sa.Column(
        "asset_id", sa.BigInteger, _cascade("hf_asset.id"), primary_key=True, autoincrement=False
    ),
    sa.Column("alias", ExactText(MAX_ASSET_LENGTH), nullable=False),
    sa.Column("since", sa.BigInteger, nullable=False),
    sa.Index(None, "asset_id"),
)
"""`since` is the number of the asset's last event before the first that named the alias."""

asset_schedule = sa.Table(
    "hf_asset_schedule",
    metadata,
    sa.Column("dag_id", ExactText(MAX_ID_LENGTH), _cascade("hf_dag.dag_id"), primary_key=True),
    sa.Column(
        "asset_id", sa.BigInteger, _cascade("hf_asset.id"), primary_key=True, autoincrement=False
    ),
    sa.Column("consumed", sa.BigInteger, nullable=False),
    sa.Index(None, "asset_id"),
)
"""`consumed` is the number of the asset's last event that a run of the DAG has taken."""

run_event = sa.Table(
    "hf_run_event",
    metadata,
    sa.Column("run", sa.BigInteger, _cascade("hf_run.id"), primary_key=True, autoincrement=False),
    sa.Column("asset_id", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.ForeignKeyConstraint(
        ["asset_id", "number"],
        ["hf_asset_event.asset_id", "hf_asset_event.number"],
        ondelete="CASCADE",
    ),
    sa.Index(None, "asset_id", "number"),
)
"""The events that started a run."""

watcher = sa.Table(
    "hf_watcher",
    metadata,
    sa.Column(
        "asset_id", sa.BigInteger, _cascade("hf_asset.id"), primary_key=True, autoincrement=False
    ),
    sa.Column("name", ExactText(MAX_ID_LENGTH), primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("owner", LongText(), nullable=False),
    sa.Column("leased_until", sa.BigInteger, nullable=False),
)
"""`number` counts the watches, of which only the newest may report events."""

service = sa.Table(
    "hf_service",
    metadata,
    sa.Column("digest", _digest, primary_key=True),
    sa.Column("kind", _word, nullable=False),
    sa.Column("process", LongText(), nullable=False),
    sa.Column("started_at", sa.BigInteger, nullable=False),
    sa.Column("seen_at", sa.BigInteger, nullable=False),
    sa.Column("lease", sa.BigInteger, nullable=False),
    sa.Column("figures", LongText()),
)
"""Schedulers and triggerers, by the digest of their process, and one row of the kind `total` with
the sum of the figures of those that are gone."""

alert = sa.Table(
    "hf_alert",
    metadata,
    sa.Column("id", row_id(), primary_key=True),
    sa.Column("channel", _word, nullable=False),
    sa.Column("kind", _word, nullable=False),
    sa.Column("subject", _digest),
    sa.Column("facts", LongText(), nullable=False),
    sa.Column("raised_at", sa.BigInteger, nullable=False),
    sa.Column("resolved_at", sa.BigInteger),
    sa.Column("delivered", _word),
    sa.Column("tries", sa.Integer, nullable=False),
    sa.Column("due_at", sa.BigInteger),
    sa.Column("error", LongText()),
    sa.UniqueConstraint("channel", "subject"),
    sa.Index(None, "channel", "due_at"),
    sqlite_autoincrement=True,  # receivers tell alerts apart by their ids
)
"""`subject` is the digest of what the alert is about while that lasts, so there is one alert of
it; NULL when it has ended, and for alerts of runs. `due_at` is the time of the next delivery; NULL
where nothing is left to deliver. The row of the kind `check` is due at the channel's next check."""

load = sa.Table(
    "hf_load",
    metadata,
    sa.Column("id", row_id(), primary_key=True),
    sa.Column("name", ExactText(64), nullable=False),
    sa.Column("writer", LongText(), nullable=False),
    sa.Column("started_at", sa.BigInteger, nullable=False),
    sa.UniqueConstraint("name"),
)
"""Unfinished bulk loads."""

load_entry = sa.Table(
    "hf_load_entry",
    metadata,
    sa.Column("load", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("part", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
    sa.Column("ti_id", TaskInstanceId()),
    sa.Column("dag_id", ExactText(MAX_ID_LENGTH)),
    sa.Column("run_id", ExactText(MAX_ID_LENGTH)),
    sa.Column("task_id", ExactText(MAX_ID_LENGTH)),
    sa.Column("map_index", sa.Integer),
    sa.Column("asset_id", sa.BigInteger),
    sa.Column("key", ExactText(MAX_KEY_LENGTH), nullable=False),
    sa.Column("value", LongText(), nullable=False),
    sa.Column("expires_at", sa.BigInteger),
)
"""Entries of unfinished loads: of assets, or of task instances, which need not exist yet; in each
part, at least one of an instance's entries has its names. The table is unlogged on PostgreSQL, so a
crash of the server empties it; and it has no foreign keys, because checking them for each row takes
longer than inserting it."""

purge = sa.Table(
    "hf_purge",
    metadata,
    sa.Column("id", row_id(), primary_key=True),
    sa.Column("ti_id", TaskInstanceId()),
    sa.Column("dag_id", ExactText(MAX_ID_LENGTH)),
    sa.Column("run_id", ExactText(MAX_ID_LENGTH)),
    sa.Column("task_id", ExactText(MAX_ID_LENGTH)),
    sa.Column("map_index", sa.Integer),
    sa.Column("name_digest", _digest),
    sa.Column("name", ExactText(MAX_ASSET_LENGTH)),
    sa.Column("uri", ExactText(MAX_ASSET_LENGTH)),
    sa.Column("key", ExactText(MAX_KEY_LENGTH), nullable=False),
    sa.Column("value", LongText(), nullable=False),
    sa.Column("due_at", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("taken_until", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("taker", ExactText(64)),
    sa.Column("reservation", ExactText(64)),
    sa.Column("tracked", sa.Integer, nullable=False, server_default="0"),
    sa.Column("tries", sa.Integer, nullable=False, server_default="0"),
    sa.Column("error", LongText()),
    sa.Index(None, "due_at"),
    sa.Index(None, "ti_id", "key"),
    sa.Index(None, "name_digest", "key"),
)
"""Purge queue: objects of a task instance or an asset, either of which may be gone, that no entry
refers to any more; and reserved ones, which become due when the reservation expires. `value` is the
value of the entry, past or future. The triggers of `purge_triggers.py` add the objects that a
change leaves without a reference. An object of a custom backend's entry, which has no triggers, is
`tracked`: checked periodically."""

client_request = sa.Table(
    "hf_client_request",
    metadata,
    sa.Column("client", ExactText(64), primary_key=True),
    sa.Column("number", sa.BigInteger, nullable=False),
    sa.Column("command_digest", _digest, nullable=False),
    sa.Column("answer", LongText(), nullable=False),
    sa.Column("answered_at", sa.BigInteger, nullable=False),
)
"""The latest executed request of each client, the digest of its command, and its answer as JSON."""
