"""What the processes of a runner tell each other: who is to do what, and what came of it."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holdfast.accessor.binding import Rules
from holdfast.model.dag import CallbackKind, DagSpec
from holdfast.model.entry import TaskWriter
from holdfast.model.run import EmittedEvent, Run, Watch
from holdfast.model.scope import AssetScope
from holdfast.spark.session.address import SparkAddress, SparkStartup


class TaskStartup(msgspec.Struct, frozen=True, kw_only=True, tag="task"):
    """Run one attempt of a task instance."""

    file: str
    writer: TaskWriter
    run: Run
    max_tries: int
    """How many attempts there may be before the task has failed, counted from its last clearing."""
    rules: Rules
    spark: SparkAddress | None = None
    aliases: dict[str, tuple[AssetScope, ...]] = {}
    """The assets behind each alias among its inlets."""


class CallbackStartup(msgspec.Struct, frozen=True, kw_only=True, tag="callback"):
    """Call what a task, or the DAG itself, wants called when something has happened to it."""

    file: str
    run: Run
    kind: CallbackKind
    task: TaskStartup | None = None
    """None: the callback of the DAG."""
    error: str = ""
    exception: bytes | None = None
    """The pickled exception, where there was one that pickles."""

    @property
    def whose(self) -> str:
        """The task instance or the run, for messages."""
        return str(self.task.writer.scope) if self.task else f"{self.run.dag_id}/{self.run.run_id}"


class ParseStartup(msgspec.Struct, frozen=True, tag="parse"):
    """Import a DAG file and say what it holds."""

    file: str


class WatchStartup(msgspec.Struct, frozen=True, kw_only=True, tag="watch"):
    """Run a watcher of an asset until it ends."""

    file: str
    dag_id: str
    watch: Watch
    rules: Rules


Startup: TypeAlias = TaskStartup | CallbackStartup | ParseStartup | WatchStartup | SparkStartup


class Succeeded(msgspec.Struct, frozen=True, kw_only=True, tag="succeeded"):
    """The task returned."""

    result: str | None = None
    """What it returned, as JSON; None for None."""
    events: tuple[EmittedEvent, ...] = ()
    """What happened to its outlets: at least one event for each concrete asset among them."""


class Skipped(msgspec.Struct, frozen=True, tag="skipped"):
    """The task said that there is nothing to do."""

    reason: str = ""


class Failed(msgspec.Struct, frozen=True, kw_only=True, tag="failed"):
    """The task raised."""

    error: str
    """One line: the exception's type and message."""
    may_retry: bool = True
    exception: bytes | None = None
    spark_is_busy: bool = False
    """The task did not begin, because what an earlier attempt runs on Spark does not end."""
    file_is_broken: bool = False
    """The task did not begin, because its DAG file cannot be imported."""


class Parsed(msgspec.Struct, frozen=True, kw_only=True, tag="parsed"):
    """What a DAG file holds, which may be nothing, or why it cannot be imported."""

    dags: tuple[DagSpec, ...] = ()
    error: str = ""
    """A traceback, or a message for what a traceback would not help with."""


class Ready(msgspec.Struct, frozen=True, tag="ready"):
    """The Spark server answers."""

    address: SparkAddress


class Done(msgspec.Struct, frozen=True, tag="done"):
    """Nothing more to say."""


Report: TypeAlias = Succeeded | Skipped | Failed | Parsed | Ready | Done

STARTUP = b"S"
REPORT = b"R"
"""The frames of a channel that hold one."""

startup_decoder: msgspec.msgpack.Decoder[Startup] = msgspec.msgpack.Decoder(Startup)
report_decoder: msgspec.msgpack.Decoder[Report] = msgspec.msgpack.Decoder(Report)
