"""Operations of a Spark Connect session: interrupting them, and waiting for their end."""

from __future__ import annotations

import time
from concurrent.futures import wait
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.errors.exceptions.connect import SparkConnectException
    from pyspark.sql.connect.session import SparkSession

LIMIT: Final = 60.0
"""Seconds that interrupted operations have to end. Work on executors ends within a few; only a
commit of thousands of files takes longer, for which 60 s suffice, or one that hangs."""
INTERVAL: Final = 0.05

SESSION_SETTINGS: Final = {
    # Spark would run a write that has a shuffle in a separate thread, which goes on after an
    # interrupt, and report the operation as cancelled meanwhile.
    "spark.sql.optimizer.plannedWrite.enabled": "false",
    # Operations of `foreachBatch` would belong to a session whose id nobody knows.
    "spark.sql.connect.streaming.foreachBatch.useClonedSession": "false",
}
"""Settings with which a session's operations run for as long as their writes do."""


def interrupt(session: SparkSession) -> bool:
    """Interrupt all operations and streaming queries of a session; return False if it is closed. A
    session that Spark does not know is created, so that it can be closed."""
    from pyspark.errors.exceptions.connect import SparkConnectException

    # PySpark releases an operation that raised in a separate thread. If one was interrupted before
    # that and still runs, Spark would never report its end.
    wait(session.client._release_futures, timeout=LIMIT)
    try:
        session.interruptAll()
    except SparkConnectException as error:
        if _is_closed(error):
            return False
        raise
    return True


def await_end(session: SparkSession, deadline: float) -> list[str]:
    """Wait until interrupted operations and streaming queries have ended, and return the ids of
    those that still run at the deadline, a time of `time.monotonic()`."""
    from pyspark.errors.exceptions.connect import SparkConnectException

    try:
        # Operations are checked again after queries: a query's own may end after the query.
        while running := _operations(session) or _queries(session) or _operations(session):
            if time.monotonic() > deadline:
                return running
            time.sleep(INTERVAL)
    except SparkConnectException as error:
        if not _is_closed(error):
            raise
    return []


def other_session(session: SparkSession, session_id: str) -> SparkSession:
    """Return another session on the server of this one, to clean it up."""
    from pyspark.sql.connect.session import SparkSession

    url: Any = session.client._builder.url  # type: ignore[attr-defined]
    kept = [one for one in url.params.split(";") if one and not one.startswith("session_id=")]
    options = ";".join([*kept, f"session_id={session_id}"])
    return SparkSession(f"sc://{url.netloc}/;{options}", userId=session.client._user_id)


def _is_closed(error: SparkConnectException) -> bool:
    return "SESSION_CLOSED" in (error.getCondition() or "")


def _operations(session: SparkSession) -> list[str]:
    from pyspark.sql.connect.proto import GetStatusResponse

    status = GetStatusResponse.OperationStatus
    ended = {
        status.OPERATION_STATE_TERMINATING,  # its result has not been fetched
        status.OPERATION_STATE_SUCCEEDED,
        status.OPERATION_STATE_FAILED,
        status.OPERATION_STATE_CANCELLED,
    }
    answer = session.client._get_operation_statuses()
    return [one.operation_id for one in answer.operation_statuses if one.state not in ended]


def _queries(session: SparkSession) -> list[str]:
    return [query.runId for query in session.streams.active]
