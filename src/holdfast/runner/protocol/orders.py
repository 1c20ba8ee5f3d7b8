"""Between a scheduler or triggerer and its supervisor."""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from holdfast.model.dag import CallbackKind, TaskSpec, WatcherSpec
from holdfast.model.run import Run, TaskInstance
from holdfast.model.scope import TaskScope
from holdfast.runner.protocol.messages import Parsed


class UseServer(msgspec.Struct, frozen=True, tag="server"):
    """With what to reach the store: where `workers.server_url` is set, the first order of all, and
    the answer to each `NeedToken`."""

    url: str
    token: str


class ParseFile(msgspec.Struct, frozen=True, tag="parse"):
    """Import a DAG file, in a process of its own, and say what it holds."""

    file: str


class RunTask(msgspec.Struct, frozen=True, tag="run"):
    """Start and supervise the next attempt of a task instance."""

    file: str
    run: Run
    task: TaskSpec
    instance: TaskInstance


class CallBack(msgspec.Struct, frozen=True, tag="call"):
    """Call the DAG's callbacks for the end of a run, or those of a task whose attempt ended without
    a supervisor that could call them."""

    number: int
    """Which of the scheduler's orders it is; `CalledBack` repeats it."""
    file: str
    run: Run
    kind: CallbackKind
    error: str
    attempt: RunTask | None = None
    """What was ordered then; None: the callbacks of the DAG."""

    @property
    def whose(self) -> str:
        """The task instance or the run, for messages."""
        run = f"{self.run.dag_id}/{self.run.run_id}"
        return str(self.attempt.instance.scope) if self.attempt else run

    def from_file(self, file: str) -> CallBack:
        """The same with the DAG as another file has it."""
        replace = msgspec.structs.replace
        attempt = self.attempt and replace(self.attempt, file=file)
        return replace(self, file=file, attempt=attempt)


class WatchAsset(msgspec.Struct, frozen=True, tag="watch"):
    """Run a watcher, and again when it ends."""

    file: str
    dag_id: str
    watcher: WatcherSpec


class Unwatch(msgspec.Struct, frozen=True, tag="unwatch"):
    """End a watcher."""

    watcher: WatcherSpec


class WarmSpark(msgspec.Struct, frozen=True, tag="spark"):
    """There will be Spark tasks: have Spark ready for them."""


class Stop(msgspec.Struct, frozen=True, tag="stop"):
    """Interrupt all attempts and end."""


Order: TypeAlias = (
    UseServer | ParseFile | RunTask | CallBack | WatchAsset | Unwatch | WarmSpark | Stop
)


class FileParsed(msgspec.Struct, frozen=True, tag="parsed"):
    file: str
    parsed: Parsed


class Ended(msgspec.Struct, frozen=True, tag="ended"):
    """The attempt that was ordered is over, and the store tells how."""

    scope: TaskScope
    error: str = ""
    """Why it was not begun, or not recorded."""
    begun: bool = True
    """False where no process could be had for it, which the store knows nothing of."""
    called: bool = True
    """False where its callbacks are yet to be called, if it has ended."""


class CalledBack(msgspec.Struct, frozen=True, tag="called"):
    """The callbacks have returned, or never will."""

    number: int
    called: bool = True
    """False where they could not be called, because the DAG's file is broken."""


class Alive(msgspec.Struct, frozen=True, tag="alive"):
    """Sent now and then."""


class NeedToken(msgspec.Struct, frozen=True, tag="token"):
    """The server does not accept the token any more, as after a time without connection."""


Notice: TypeAlias = FileParsed | Ended | CalledBack | Alive
Upward: TypeAlias = Notice | NeedToken

order_decoder: msgspec.msgpack.Decoder[Order] = msgspec.msgpack.Decoder(Order)
upward_decoder: msgspec.msgpack.Decoder[Upward] = msgspec.msgpack.Decoder(Upward)
