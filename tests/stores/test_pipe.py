"""Store over a pipe, as a task process has it."""

from __future__ import annotations

import os
import pickle
import signal
import socket
from threading import Thread
from typing import Any

import pytest
from servers import SqliteDatabase

from holdfast import commands as c
from holdfast.access.identity import ChildIdentity, Identity, UserIdentity
from holdfast.errors import Forbidden, NotSupported, StoreUnavailable
from holdfast.model.entry import TaskWriter
from holdfast.model.role import Role
from holdfast.model.scope import TaskScope
from holdfast.runner.supervisor.relay import relay
from holdfast.store import Store
from holdfast.stores.pipe import PipeStore
from holdfast.stores.sql.store import SqlStore
from holdfast.testing import MakeStore, ObjectConformance, StateConformance
from holdfast.wire.channel import Channel

TASK = TaskScope("sales", "monday", "load")


class RelayedStore(PipeStore):
    """Pipe with the other end in a thread."""

    def __init__(self, store: Store, identity: Identity) -> None:
        ours, its = socket.socketpair()
        super().__init__(Channel(ours))
        self._store = store
        self._thread = Thread(target=relay, args=(Channel(its), store, identity))
        self._thread.start()

    def supports(self, command: type[c.Command[Any]]) -> bool:
        return super().supports(command) and self._store.supports(command)

    def close(self) -> None:
        self._channel.end_input()
        self._channel.sock.shutdown(socket.SHUT_RDWR)
        self._thread.join()
        self._channel.close()
        self._store.close()


class TestPipeStore(StateConformance, ObjectConformance):
    differs = {"test_a_pickled_store_reads_and_writes_the_same_state": "a pipe has two ends"}
    history_limit = 4
    modes = ("sync",)

    @pytest.fixture
    def make_store(self, sqlite_database: SqliteDatabase) -> MakeStore:
        return lambda clock: RelayedStore(
            SqlStore(sqlite_database.empty(), history_limit=self.history_limit, clock=clock),
            UserIdentity("tester", Role.ADMIN),
        )


@pytest.fixture
def attempt_store(sqlite_database: SqliteDatabase):
    inner = SqlStore(sqlite_database.empty())
    inner.execute(c.RegisterTask(TASK))
    inner.execute(c.DeclareAsset("customers"))
    orders = inner.execute(c.DeclareAsset("orders", "s3://lake/orders"))
    writer = TaskWriter(TASK, inner.execute(c.StartAttempt(TASK)))
    identity = ChildIdentity(writer, ((orders.name, orders.uri),), (orders.asset_id,))
    store = RelayedStore(inner, identity)
    yield store
    store.close()


def test_an_attempt_may_not_write_as_another(attempt_store: PipeStore) -> None:
    with pytest.raises(Forbidden, match="may not do this"):
        attempt_store.execute(c.Set(TASK, "k", "1", TaskWriter(TASK, 7)))


def test_an_attempt_may_not_write_to_another_task(attempt_store: PipeStore) -> None:
    other = TaskScope("sales", "monday", "aggregate")
    with pytest.raises(Forbidden, match="may not do this"):
        attempt_store.execute(c.Set(other, "k", "1", TaskWriter(TASK, 1)))


def test_an_attempt_may_not_end_itself(attempt_store: PipeStore) -> None:
    with pytest.raises(Forbidden, match="FinishAttempt"):
        attempt_store.execute(c.FinishAttempt(TaskWriter(TASK, 1), True))


def test_a_store_without_supervisor_is_an_error_that_says_so() -> None:
    ours, its = socket.socketpair()
    its.close()
    with pytest.raises(StoreUnavailable, match="supervisor"):
        PipeStore(Channel(ours)).execute(c.Get(TASK, "k"))
    ours.close()


def test_the_stores_of_a_task_cannot_be_pickled(attempt_store: PipeStore) -> None:
    with pytest.raises(NotSupported, match="pickled"):
        pickle.dumps(attempt_store)


def test_garbage_on_the_pipe_ends_the_relay(attempt_store: RelayedStore) -> None:
    attempt_store._channel.sock.sendall(b"\xff" * 64)

    attempt_store._thread.join(timeout=10)

    assert not attempt_store._thread.is_alive()


class Stopped(BaseException):
    """Raised by a signal."""


def test_an_interrupt_is_raised_although_the_connection_was_lost() -> None:
    ours, its = socket.socketpair()
    store = PipeStore(Channel(ours))
    waiting = signal.signal(signal.SIGUSR1, lambda *_: store.interrupt(Stopped()))

    def stop() -> None:
        its.recv(1)  # the command is under way
        os.kill(os.getpid(), signal.SIGUSR1)
        its.close()

    stopping = Thread(target=stop)
    stopping.start()
    try:
        with pytest.raises(Stopped):
            store.execute(c.Now())
    finally:
        signal.signal(signal.SIGUSR1, waiting)
        stopping.join()
        ours.close()
