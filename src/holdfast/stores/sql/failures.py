"""Translation of driver errors. They are translated here and nowhere else."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from holdfast.errors import HoldfastError, InvalidInput, InvalidUrl, StoreFailed, StoreUnavailable
from holdfast.settings import without_password

_START_HINT = "check that it is running, and [database] url"

_SQLITE = (
    ("unable to open", "cannot be opened", "check that its directory exists and is writable"),
    ("readonly", "is read-only", "make the file and its directory writable, or move it"),
    ("is full", "cannot grow: the disk is full", "free some space; nothing was lost"),
    ("not a database", "is not a database", "check [database] url, or move that file away"),
    ("malformed", "is damaged", "restore it from a backup"),
    ("locked", "is locked by another process", "wait for it, or move to PostgreSQL"),
    ("disk i/o", "cannot be read or written (disk I/O error)", "check the disk"),
)

_PASSING = (
    *("starting up", "shutting down", "recovery mode", "not yet accepting", "not accepting"),
    *("too many clients", "too many connections", "remaining connection slots", "terminating"),
)
_MYSQL_LOST = {2003, 2006, 2013, 2055, 1040, 1053, 1203, 1226, 1927}
_MYSQL_READ_ONLY = {1290, 1792, 1836}
# Deadlocks, stale snapshots, the same row inserted twice, and a row whose owner somebody has just
# deleted: every insert follows a lookup.
_CLASHES = {"40001", "40P01", "23505", "23503"}
_MYSQL_CLASHES = {1213, 1020, 1062, 1452}
_OUT_OF_RANGE = {"22003", 1264}
_TOO_LONG = {"57014", "55P03", 1205, 1969, 3024}


def is_driver_error(error: BaseException) -> bool:
    """Return whether a driver raised it: drivers share a naming scheme, but no base class."""
    return any(kind.__name__ == "Error" for kind in type(error).__mro__) or isinstance(
        error, sa.exc.DBAPIError | OSError
    )


def original(error: BaseException) -> BaseException:
    """Return the driver's own error, if SQLAlchemy has wrapped it."""
    inner = getattr(error, "orig", None)
    return inner if isinstance(inner, BaseException) else error


def is_lost(error: BaseException) -> bool:
    """Return whether the connection was lost, could not be made or is of no use, as to a standby;
    another may work later."""
    error = original(error)
    if isinstance(error, OSError) or is_read_only(error):
        return True
    state: str | None = getattr(error, "sqlstate", None)
    if type(error).__module__.startswith("psycopg"):
        if state is None:
            # A connection that the server itself refuses raises an error without a state.
            refused = "FATAL:" in str(error) and not any(word in str(error) for word in _PASSING)
            names = ("OperationalError", "ConnectionTimeout")
            return type(error).__name__ in names and not refused
        return state.startswith(("08", "57P")) or state == "53300"
    if type(error).__module__.startswith("pymysql"):
        return _mysql_code(error) in _MYSQL_LOST or type(error).__name__ == "InterfaceError"
    return False


def is_read_only(error: BaseException) -> bool:
    """Return whether a server refuses all writes, as a standby does until it is promoted."""
    error = original(error)
    if getattr(error, "sqlstate", None) == "25006":
        return True
    text = str(error).lower().replace("_", "-").replace(" ", "-")
    return _mysql_code(error) in _MYSQL_READ_ONLY and "read-only" in text


def is_missing_table(error: BaseException) -> bool:
    error = original(error)
    return (
        getattr(error, "sqlstate", None) == "42P01"
        or _mysql_code(error) == 1146
        or "no such table" in str(error)
    )


def is_clash(error: BaseException) -> bool:
    """Return whether a conflict of transactions rolled this one back; it may be retried."""
    error = original(error)
    state: str | None = getattr(error, "sqlstate", None)
    return state in _CLASHES or _mysql_code(error) in _MYSQL_CLASHES


def _mysql_code(error: BaseException) -> Any:
    if type(error).__module__.startswith("pymysql") and error.args:
        return error.args[0]
    return None


def translate(error: BaseException, url: sa.URL) -> HoldfastError:
    """Return the error to raise for a driver's error."""
    error = original(error)
    where = f"the database {shown(url)}"
    if "invalid connection option" in str(error):
        return InvalidUrl(f"{where}: {_first_line(error)}", hint="check the part after the `?`")
    if url.get_backend_name() == "sqlite":
        text = str(error).lower()
        for sign, what, hint in _SQLITE:
            if sign in text:
                return StoreUnavailable(f"{where} {what}", hint=hint)
    if is_read_only(error):
        return StoreUnavailable(
            f"{where} is read-only: {_first_line(error)}",
            hint="it may be a standby: wait until it is promoted, or check [database] url",
        )
    if is_lost(error):
        reason = _first_line(error)
        return StoreUnavailable(f"{where} does not answer: {reason}", hint=_START_HINT)
    if (getattr(error, "sqlstate", None) or _mysql_code(error)) in _TOO_LONG:
        return StoreUnavailable(
            f"{where} timed out: {_first_line(error)}",
            hint="another client has locked the rows, or the statement timeout is too low",
        )
    if (getattr(error, "sqlstate", None) or _mysql_code(error)) in _OUT_OF_RANGE:
        return InvalidInput(
            f"a number in the request is out of the range of {where}: {_first_line(error)}",
            hint="give a smaller number",
        )
    if _mysql_code(error) in (1142, 1419):
        return StoreFailed(
            f"{where} refused the request: {_first_line(error)}",
            hint="the user needs the privileges to create tables and triggers; with a binary log, "
            "also SUPER, or log_bin_trust_function_creators = 1 on the server",
        )
    if type(error).__name__ == "OperationalError" and not is_missing_table(error):
        return StoreUnavailable(
            f"{where} refused the request: {_first_line(error)}",
            hint="check user, password and database name",
        )
    return StoreFailed(
        f"{where} rejected a statement: {_first_line(error)}",
        hint="`holdfast db check` shows whether its schema matches; if it does, this is a bug",
    )


def shown(url: sa.URL) -> str:
    """Return the URL without its password."""
    return without_password(url.render_as_string(hide_password=True))


def _first_line(error: BaseException) -> str:
    text = error.args[1] if _mysql_code(error) and len(error.args) > 1 else error
    lines = str(text).strip().splitlines()
    return lines[0] if lines else type(error).__name__
