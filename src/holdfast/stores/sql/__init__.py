"""Store in SQLite, PostgreSQL, or MySQL/MariaDB."""

from holdfast.stores.sql.store import SqlStore

__all__ = ["SqlStore"]
