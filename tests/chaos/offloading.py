"""Worker that offloads values to an object server, and is killed at a step or at any time.

It is a separate module so that a worker imports only what it needs.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeVar

from processes import Pipe

from holdfast import commands as c
from holdfast.cleanup.plan import CleanupPlan
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.settings import ObjectStore
from holdfast.store import Store
from holdfast.stores.offload.objects.backend import ObjectStoreBackend
from holdfast.stores.offload.store import OffloadStore
from holdfast.stores.sql import SqlStore

A = TypeVar("A")

ME = ApiWriter("chaos")
TASK = TaskScope("chaos", "run", "writer")
ASSET = AssetScope(name="asset")
HISTORY: Final = 2
PAST = datetime(2020, 1, 1, tzinfo=UTC)


def text_of(number: int) -> str:
    """Return one of a few repeated values, so that objects being purged are written again."""
    return f'"{number % 3}"'


def prepare(store: Store) -> None:
    store.execute(c.RegisterTask(TASK))
    store.execute(c.DeclareAsset("asset", "memory://asset"))


def overwrite(store: OffloadStore, number: int) -> None:
    store.execute(c.Set(TASK, "overwrite", text_of(number), ME))
    store.purge()


def overwrite_asset(store: OffloadStore, number: int) -> None:
    store.execute(c.Set(ASSET, "overwrite_asset", text_of(number), ME))
    store.purge()


def write_and_delete(store: OffloadStore, number: int) -> None:
    store.execute(c.Set(TASK, "write_and_delete", text_of(number), ME))
    store.execute(c.Delete(TASK, "write_and_delete", ME))


def expire_and_clean_up(store: OffloadStore, number: int) -> None:
    store.execute(c.Set(TASK, "expire_and_clean_up", text_of(number), ME, PAST))
    sum(CleanupPlan.now(store).delete())
    store.purge()


def stage_and_succeed(store: OffloadStore, number: int) -> None:
    me = TaskWriter(TASK, store.execute(c.StartAttempt(TASK)))
    store.execute(c.Set(ASSET, "stage_and_succeed", text_of(number), me, on_success=True))
    store.execute(c.FinishAttempt(me, succeeded=True))
    store.purge()


Action = Callable[[OffloadStore, int], None]
ACTIONS: dict[str, Action] = {
    action.__name__: action
    for action in (
        overwrite,
        overwrite_asset,
        write_and_delete,
        expire_and_clean_up,
        stage_and_succeed,
    )
}
KEPT: dict[str, StoreScope] = {
    "overwrite": TASK,
    "overwrite_asset": ASSET,
    "stage_and_succeed": ASSET,
}
"""Actions that offload a value, with its scope."""


class KillSwitch:
    """Records the steps, and kills its process before one of them."""

    def __init__(self, deadly: int | None) -> None:
        self.steps: list[str] = []
        self._deadly = deadly

    def step(self, name: str) -> None:
        if len(self.steps) == self._deadly:
            os.kill(os.getpid(), signal.SIGKILL)
        self.steps.append(name)


class KillableStore(SqlStore):
    """Store for which each command is a step."""

    switch: KillSwitch

    def execute(self, command: c.Command[A]) -> A:
        self.switch.step(type(command).__name__)
        return super().execute(command)


class KillableBackend(ObjectStoreBackend):
    """Backend for which each write and each removal of objects is a step."""

    switch: KillSwitch

    def put(self, reference: str, scope: StoreScope, key: str, content: bytes) -> None:
        self.switch.step("put")
        super().put(reference, scope, key, content)

    def remove(self, references: Sequence[str]) -> dict[str, str]:
        self.switch.step("remove")
        return super().remove(references)


class Place(NamedTuple):
    """Location of entries and objects."""

    url: str
    objects: str
    environment: dict[str, str]
    """URL with the credentials of the objects."""

    def opened(self, clock: Callable[[], datetime] | None = None) -> OffloadStore:
        os.environ.update(self.environment)
        return OffloadStore(SqlStore(self.url, history_limit=HISTORY, clock=clock), self.backend())

    def backend(self) -> ObjectStoreBackend:
        return ObjectStoreBackend(ObjectStore(url=self.objects))


def do_and_die(pipe: Pipe, place: Place, action: str, number: int, deadly: int | None) -> None:
    """Execute one action, up to the step at which it is killed, if any; report its steps."""
    os.environ.update(place.environment)
    store = KillableStore(place.url, history_limit=HISTORY)
    backend = KillableBackend(ObjectStore(url=place.objects))
    store.switch = backend.switch = KillSwitch(deadly)
    ACTIONS[action](OffloadStore(store, backend), number)
    pipe.send(store.switch.steps)


def act_without_end(pipe: Pipe, place: Place, numbers: dict[str, int]) -> None:
    """Execute all actions in turn, each with a number one higher than before."""
    store = place.opened()
    while True:
        for name, action in ACTIONS.items():
            action(store, numbers[name] + 1)
            numbers[name] += 1
            if name in KEPT:
                assert store.execute(c.Get(KEPT[name], name)) == text_of(numbers[name])
            pipe.send(name)


def purge_without_end(pipe: Pipe, place: Place) -> None:
    store = place.opened()
    while True:
        store.purge()
        pipe.send("purged")
