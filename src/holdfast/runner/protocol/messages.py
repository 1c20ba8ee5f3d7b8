"""Startup messages to child processes, and the reports that they send back."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec
from msgspec.structs import force_setattr

from holdfast.accessor.binding import Rules
from holdfast.model.dag import CallbackKind, DagSpec
from holdfast.model.entry import TaskWriter
from holdfast.model.run import EmittedEvent, Run, Watch
from holdfast.model.scope import AssetScope
from holdfast.spark.session.address import SparkAddress, SparkStartup

LONGEST_IMPORT_ERROR: Final = 20_000
"""Maximum characters of the error of a DAG file. Its beginning and its end are kept."""


class TaskStartup(msgspec.Struct, frozen=True, kw_only=True, tag="task"):
    """Startup of a child that runs one attempt of a task instance."""

    file: str
    writer: TaskWriter
    run: Run
    max_tries: int
    """Number of the attempt whose failure is final; retries are counted from the last clearing."""
    rules: Rules
    spark: SparkAddress | None = None
    aliases: dict[str, tuple[AssetScope, ...]] = {}
    """The assets behind each alias among the task's inlets."""
    traceparent: str = ""
    """The span of the attempt; empty while tracing is off."""


class CallbackStartup(msgspec.Struct, frozen=True, kw_only=True, tag="callback"):
    """Startup of a child that calls the callbacks of a task, or of the DAG itself, for an event."""

    file: str
    run: Run
    kind: CallbackKind
    task: TaskStartup | None = None
    """None for the callbacks of the DAG."""
    error: str = ""
    exception: bytes | None = None
    """The pickled exception, if there was one that pickles."""


class ParseStartup(msgspec.Struct, frozen=True, tag="parse"):
    """Startup of a child that imports a DAG file and reports its DAGs."""

    file: str


class WatchStartup(msgspec.Struct, frozen=True, kw_only=True, tag="watch"):
    """Startup of a child that runs a watcher of an asset until it ends."""

    file: str
    dag_id: str
    watch: Watch
    rules: Rules


Startup: TypeAlias = TaskStartup | CallbackStartup | ParseStartup | WatchStartup | SparkStartup


class Succeeded(msgspec.Struct, frozen=True, kw_only=True, tag="succeeded"):
    """Report of a task that has returned."""

    result: str | None = None
    """The return value as JSON; None for None."""
    events: tuple[EmittedEvent, ...] = ()
    """The events of its outlets, at least one for each concrete asset among them."""


class Skipped(msgspec.Struct, frozen=True, tag="skipped"):
    """Report of a task that has skipped itself, as there is nothing to do."""

    reason: str = ""


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """Report of a task, or of other work of a child, that has raised an exception."""

    error: str
    """One line: the exception's type and message."""
    may_retry: bool = True
    exception: bytes | None = None
    spark_is_busy: bool = False
    """The task did not begin, because an earlier attempt's work on Spark does not end."""
    file_is_broken: bool = False
    """The task did not begin, because its DAG file cannot be imported."""
    got_sigterm: bool = False
    store_was_away: bool = False
    """The task ended because the store was unavailable for longer than `retry_window`."""


class Parsed(msgspec.Struct, frozen=True, kw_only=True, tag="parsed"):
    """Report of an import: the DAGs of the file, if any, or why it cannot be imported."""

    dags: tuple[DagSpec, ...] = ()
    error: str = ""
    """A traceback, or a message if a traceback would not help; its middle is cut out where it is
    long."""
    uncalled: tuple[str, ...] = ()
    """Where there are no DAGs: the functions decorated with `@dag`, none of which was called."""

    def __post_init__(self) -> None:
        # Also when it is decoded: the child that sends it has run the file's code.
        force_setattr(self, "error", _shortened(self.error))


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """Report that the Spark server responds to requests."""

    address: SparkAddress


class Done(msgspec.Struct, frozen=True, tag="done"):
    """Report of work that has ended without a result."""


Report: TypeAlias = Succeeded | Skipped | Failed | Parsed | Ready | Done

STARTUP = b"S"
REPORT = b"R"
"""Kinds of channel frames that hold a startup or a report."""

startup_decoder: msgspec.msgpack.Decoder[Startup] = msgspec.msgpack.Decoder(Startup)
report_decoder: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)


def _shortened(error: str) -> str:
    cut = len(error) - LONGEST_IMPORT_ERROR
    if cut <= 0:
        return error
    note = f"\n[{cut:,} characters were left out here]\n"
    half = (LONGEST_IMPORT_ERROR - len(note)) // 2
    return error[:half] + note + error[-half:]
