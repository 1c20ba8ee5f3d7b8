"""The Spark session of one attempt, on a server that it shares with others."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote, urlsplit
from uuid import uuid5

from holdfast.accessor.task_store import TaskStore
from holdfast.errors import InvalidSettings, SparkBusy, SparkUnavailable
from holdfast.model.entry import TaskWriter
from holdfast.monitoring.tracing import trace_id
from holdfast.settings import without_password
from holdfast.spark.session.address import SparkAddress

if TYPE_CHECKING:
    from pyspark.sql.connect.session import SparkSession

DEFAULT_PORT: Final = 15002
USER: Final = "holdfast"
"""The user of all sessions. It is the same for all attempts, so that each finds the others'."""

log = logging.getLogger("holdfast.task")


def session_id(writer: TaskWriter, begun: datetime) -> str:
    """Return an id derived from the task instance and the attempt, so that a later attempt finds
    it.

    `begun`, the time at which the run was created, distinguishes it from a run of the same name in
    another store that uses this Spark, or earlier in this store.
    """
    return str(uuid5(writer.scope.ti_id, f"{begun.isoformat()} {writer.attempt}"))


def address_of(remote: str) -> SparkAddress:
    """Parse a connection string of the user's; raise InvalidSettings if it is invalid."""
    try:
        url = urlsplit(remote)
        host, port = url.hostname, url.port
    except ValueError:
        raise _malformed(remote) from None
    path, _, parameters = url.path.partition(";")
    options = [option for option in parameters.split(";") if option]
    if (
        url.scheme != "sc"
        or not host
        or path not in ("", "/")
        or url.username is not None
        or url.query
        or url.fragment
        or any(option.count("=") != 1 for option in options)
    ):
        raise _malformed(remote)
    if any(option.startswith("session_id=") for option in options):
        raise InvalidSettings(
            "spark.remote must not contain a session_id: each attempt has its own session",
            hint="remove it",
        )
    token = next((option[6:] for option in options if option.startswith("token=")), "")
    return SparkAddress(
        host=host,
        port=port or DEFAULT_PORT,
        token=unquote(token),
        options=";".join(option for option in options if not option.startswith("token=")),
    )


def connection_string(address: SparkAddress, session: str) -> str:
    """Return PySpark's connection string for this server and session id."""
    host = f"[{address.host}]" if ":" in address.host else address.host
    options = [address.options] if address.options else []
    if address.token:
        options.append(f"token={quote(address.token, safe='')}")
    if not any(option.startswith("user_id=") for option in address.options.split(";")):
        options.append(f"user_id={USER}")
    options.append(f"session_id={session}")
    return f"sc://{host}:{address.port}/;{';'.join(options)}"


@contextmanager
def task_session(
    address: SparkAddress, task_store: TaskStore, writer: TaskWriter, begun: datetime
) -> Iterator[SparkSession]:
    """Yield the session of an attempt, in UTC, which `getOrCreate()` and `active()` then return.
    `begun` is the time at which its run was created.

    Everything that earlier attempts of the task instance ran has ended before that; SparkBusy is
    raised if it has not. The session ends with the block; an earlier `stop()` does nothing, since
    all code in the task shares the session.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.session import SparkSession

    from holdfast.spark.session.operations import SESSION_SETTINGS
    from holdfast.spark.session.progress import Progress
    from holdfast.spark.session.retries import set_retry_policy
    from holdfast.spark.session.row_count import RowCount

    # This logger repeats the raised error as one line of JSON.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
    own = session_id(writer, begun)
    remote = connection_string(address, own)
    end_earlier_attempts(address, writer, begun)
    try:
        session = SparkSession.builder.remote(remote).create()
        set_retry_policy(session, address)
        for name, text in {"spark.sql.session.timeZone": "UTC", **SESSION_SETTINGS}.items():
            session.conf.set(name, text)
        if trace := trace_id():
            session.addTag(f"trace-{trace}")
    except PySparkException as error:
        raise SparkUnavailable(
            f"{writer} could not open a Spark session at {address.host}:{address.port}: "
            f"{str(error).partition(chr(10))[0]}",
            hint="check that Spark is running there, then retry the task",
        ) from error
    session.stop = lambda: None  # type: ignore[method-assign]
    rows = RowCount(address.ui, own) if address.ui else None
    with Progress(task_store, address.ui, rows) as progress, _environment(remote):
        session.registerProgressHandler(progress)  # type: ignore[arg-type]
        try:
            yield session
        finally:
            session.removeProgressHandler(progress)  # type: ignore[arg-type]
            _end(session, address)


def end_earlier_attempts(address: SparkAddress, writer: TaskWriter, begun: datetime) -> None:
    """End what earlier attempts left running, and close their sessions for good: an attempt that is
    still alive somewhere cannot get a new one.

    A session is closed when its operations and those of all attempts before it have ended. Raises
    SparkBusy if Spark does not confirm that they have.
    """
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.session import SparkSession

    from holdfast.spark.session.operations import LIMIT, await_end, interrupt
    from holdfast.spark.session.retries import set_retry_policy

    where = f"Spark at {address.host}:{address.port}"
    hint = "wait until it has ended, or restart that Spark, then retry the task"
    left: list[SparkSession] = []
    with ExitStack() as clients:
        try:
            for attempt in range((writer.attempt or 1) - 1, 0, -1):
                earlier = session_id(TaskWriter(writer.scope, attempt), begun)
                session = SparkSession(connection_string(address, earlier))
                clients.callback(session.client.close)
                set_retry_policy(session, address)
                if not interrupt(session):
                    break
                left.append(session)
            deadline = time.monotonic() + LIMIT
            for session in reversed(left):
                if running := await_end(session, deadline):
                    raise SparkBusy(
                        f"{writer} cannot start: operations of an earlier attempt still run on "
                        f"{where} after {LIMIT:.0f} s: {', '.join(running)} of session "
                        f"{session.session_id}",
                        hint=hint,
                    )
                session.client.release_session()
        except PySparkException as error:
            raise SparkBusy(
                f"{writer} cannot start: {where} did not confirm that the operations of earlier "
                f"attempts have ended: {str(error).partition(chr(10))[0]}",
                hint=hint,
            ) from error


def _end(session: SparkSession, address: SparkAddress) -> None:
    """End a session and its operations. If that takes too long or fails, the session stays, and the
    next attempt ends it."""
    from pyspark.errors import PySparkException
    from pyspark.sql.connect.session import SparkSession

    from holdfast.spark.session.operations import LIMIT, await_end, interrupt
    from holdfast.spark.session.retries import set_brief_retry_policy

    set_brief_retry_policy(session, address)
    session.release_session_on_close = False
    try:
        running = await_end(session, time.monotonic() + LIMIT) if interrupt(session) else []
        session.release_session_on_close = not running
        if running:
            log.warning(
                "operations still running on Spark after %.0f s: %s", LIMIT, ", ".join(running)
            )
    except PySparkException as error:
        log.debug("the session was not closed: %s", error)
    finally:
        SparkSession.stop(session)


@contextmanager
def _environment(remote: str) -> Iterator[None]:
    """Set the environment variables by which `pyspark.sql` decides whether to use Spark Connect."""
    ours = {"SPARK_REMOTE": remote, "SPARK_CONNECT_MODE_ENABLED": "1"}
    before = {name: os.environ.get(name) for name in ours}
    os.environ.update(ours)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _malformed(remote: str) -> InvalidSettings:
    return InvalidSettings(
        f"spark.remote may not be {without_password(remote)!r}",
        hint="use sc://host:port, optionally with parameters: sc://host:port/;token=…;use_ssl=true",
    )
