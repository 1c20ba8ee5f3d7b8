"""Messages between a scheduler or triggerer and its supervisor."""

from __future__ import annotations

from datetime import datetime
from typing import TypeAlias

import msgspec

from holdfast.model.dag import CallbackKind, TaskSpec, WatcherSpec
from holdfast.model.run import Outcome, Run, TaskInstance, TaskState
from holdfast.model.scope import TaskScope
from holdfast.runner.protocol.messages import Parsed


class UseServer(msgspec.Struct, frozen=True, tag="server"):
    """Order to access the store through a server.

    If `workers.server_url` is set, this is the first order, and the response to each `NeedToken`.
    """

    url: str
    token: str


class ParseFile(msgspec.Struct, frozen=True, tag="parse"):
    """Order to import a DAG file, in its own process, and to report its DAGs."""

    file: str


class RunTask(msgspec.Struct, frozen=True, tag="run"):
    """Order to start and supervise the next attempt of a task instance."""

    number: int
    """The number of the scheduler's order, which `Ended` repeats: the process of an attempt that
    somebody stopped may outlive the order of the next one."""
    file: str
    run: Run
    task: TaskSpec
    instance: TaskInstance
    traceparent: str = ""
    """The span of the run; empty while tracing is off."""


class CallBack(msgspec.Struct, frozen=True, tag="call"):
    """Order to call the DAG's callbacks for the end of a run, or the callbacks of a task whose
    attempt ended without a supervisor that could call them."""

    number: int
    """The number of the scheduler's order, which `CalledBack` repeats."""
    file: str
    run: Run
    kind: CallbackKind
    error: str
    attempt: RunTask | None = None
    """The order of the attempt; None for the callbacks of the DAG."""

    @property
    def whose(self) -> str:
        """The task instance or the run, for messages."""
        run = f"{self.run.dag_id}/{self.run.run_id}"
        return str(self.attempt.instance.scope) if self.attempt else run

    def from_file(self, file: str) -> CallBack:
        """Return a copy of the order that takes the DAG from another file."""
        replace = msgspec.structs.replace
        attempt = self.attempt and replace(self.attempt, file=file)
        return replace(self, file=file, attempt=attempt)


class WatchAsset(msgspec.Struct, frozen=True, tag="watch"):
    """Order to run a watcher, and to restart it when it ends."""

    file: str
    dag_id: str
    watcher: WatcherSpec


class Unwatch(msgspec.Struct, frozen=True, tag="unwatch"):
    """Order to end a watcher."""

    watcher: WatcherSpec


class WarmSpark(msgspec.Struct, frozen=True, tag="spark"):
    """Order to have Spark ready, because there will be Spark tasks."""


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """Order to interrupt all attempts and end."""


Order: TypeAlias = (
    UseServer | ParseFile | RunTask | CallBack | WatchAsset | Unwatch | WarmSpark | Stop
)


class FileParsed(msgspec.Struct, frozen=True, tag="parsed"):
    file: str
    parsed: Parsed


class AttemptEnd(msgspec.Struct, frozen=True, kw_only=True):
    """The recorded end of an attempt, for logs and metrics."""

    attempt: int
    outcome: Outcome
    state: TaskState
    """The state of its task instance."""
    error: str = ""
    ready_at: datetime | None = None
    """The earliest time of the next attempt."""
    orderly: bool = False
    seconds: float | None = None
    """Its duration; None where that is not known."""


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """Notice that an ordered attempt is over; the store has its outcome."""

    number: int
    scope: TaskScope
    error: str = ""
    """Why it was not begun, or not recorded."""
    begun: bool = True
    """False if no process could be started for it, of which the store has no record."""
    called: bool = True
    """False if its callbacks are still to be called, provided that it has ended."""
    refused: bool = False
    """True if it was not begun because its pool had no free slot."""
    end: AttemptEnd | None = None
    """None if its supervisor has not recorded an end."""


class CalledBack(msgspec.Struct, frozen=True, tag="called"):
    """Notice that callbacks have returned, or never will."""

    number: int
    called: bool = True
    """False if they could not be called because the DAG's file is broken."""


class WatcherFailed(msgspec.Struct, frozen=True, tag="watcher"):
    """Notice that a watcher has failed, and is restarted."""

    watcher: WatcherSpec


class Alive(msgspec.Struct, frozen=True, tag="alive"):
    """Notice that the supervisor is alive, sent periodically."""


class NeedToken(msgspec.Struct, frozen=True, tag="token"):
    """Request for a new token: the server rejects the old one, as after a lost connection."""


Notice: TypeAlias = FileParsed | Ended | CalledBack | WatcherFailed | Alive
Upward: TypeAlias = Notice | NeedToken

order_decoder: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)
upward_decoder: msgspec.msgpack.Decoder[Upward] = msgspec.msgpack.Decoder(Upward)
