"""Link of a scheduler or triggerer to its supervisor process, over a socket."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, Queue
from threading import Thread

import msgspec

from holdfast import commands as c
from holdfast.access.identity import WorkerIdentity
from holdfast.environment import start_hidden
from holdfast.errors import (
    HoldfastError,
    InvalidSettings,
    RunnerFailed,
    StoreUnavailable,
    TokenRefused,
)
from holdfast.process import this_process
from holdfast.runner.protocol.orders import (
    Alive,
    NeedToken,
    Notice,
    Order,
    Stop,
    UseServer,
    upward_decoder,
)
from holdfast.runner.protocol.parameters import ALIVE
from holdfast.settings import Settings, declared
from holdfast.wire.channel import ORDER, Channel, encode

SILENCE = 30.0
"""Seconds without a message after which a supervisor counts as hanging."""
MOST_STARTS = 3
"""Maximum restarts in a row of supervisors that end before they have sent a message."""

_SECRETS = {setting.variable for setting in declared() if setting.special.withheld}

log = logging.getLogger("holdfast.supervisor")


class SupervisorLink:
    """A supervisor process and the channel to it; when it dies, another one is started."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._starts = 0
        self._asked = 0.0
        if settings.workers.server_url:
            _check_key(_use_server(settings))
        self._start()

    def order(self, order: Order) -> None:
        with suppress(OSError):  # it has died, which `notices` reports
            self._channel.send(ORDER, encode(order))

    def notices(self, timeout: float) -> Iterator[Notice | None]:
        """Yield the supervisor's notices; wait for the first for up to `timeout` seconds.

        None means that the supervisor has died with all that it ran, and that there is a new one.
        Raise RunnerFailed if supervisors repeatedly end as soon as they have started.
        """
        due = time.monotonic() + timeout
        if time.monotonic() > self._asked + 2 * ALIVE:
            self._heard = time.monotonic()  # time without listening does not count as silence
        try:
            notice = self._notices.get(timeout=timeout)
            while True:
                self._heard = time.monotonic()
                if notice is None:
                    self._start_again()
                    yield None
                    return
                self._starts = 0
                if not isinstance(notice, Alive):
                    yield notice
                notice = self._notices.get_nowait()
        except Empty:
            pass
        self._asked = time.monotonic()
        if self._asked > due + 2 * ALIVE:
            self._heard = self._asked  # this process was suspended, and perhaps the other too
        if self._asked > self._heard + SILENCE:
            log.warning("the supervisor does not respond; starting another one")
            self._popen.kill()
            self._heard = time.monotonic()

    def stop(self) -> list[Notice]:
        """Have the supervisor interrupt its attempts and end; kill it if it does not respond.

        Return its last notices.
        """
        self.order(Stop())
        notices = []
        if self._popen.poll() is None:
            with suppress(Empty):
                while (notice := self._notices.get(timeout=SILENCE)) is not None:
                    notices.append(notice)
            self._popen.kill()
        self._popen.wait()
        self._listener.join()
        self._channel.close()
        return notices

    def kill(self) -> None:
        """Kill the supervisor; its launcher notices and ends the tasks."""
        self._popen.kill()

    def _start(self) -> None:
        ours, its = socket.socketpair()
        # If it uses a server, it does not get the secrets that bypass it.
        self._popen = start_hidden(
            [sys.executable, "-m", "holdfast.runner.supervisor", str(its.fileno())],
            without=_SECRETS if self._settings.workers.server_url else (),
            pass_fds=[its.fileno()],
            stdin=subprocess.DEVNULL,
            start_new_session=True,  # signals of the terminal reach it only through this process
        )
        its.close()
        self._channel = Channel(ours)
        if self._settings.workers.server_url:
            self.order(_use_server(self._settings))
        self._notices: Queue[Notice | None] = Queue()
        self._heard = time.monotonic()
        listening = (self._popen, self._channel, self._notices, self._settings)
        self._listener = Thread(target=_listen, args=listening, daemon=True)
        self._listener.start()

    def _start_again(self) -> None:
        self._starts += 1
        if self._starts > MOST_STARTS:
            raise RunnerFailed(
                f"the supervisor ended {self._starts} times right after it had started",
                hint="see the supervisor's messages above",
            )
        status = self._popen.returncode
        log.warning("the supervisor has ended (%s); starting another one", status)
        self._channel.close()
        self._start()


def _use_server(settings: Settings) -> UseServer:
    from holdfast.server.tokens import open_tokens

    token = open_tokens(settings).issue(WorkerIdentity(str(this_process())))
    return UseServer(settings.workers.server_url, token)


def _check_key(server: UseServer) -> None:
    """Raise InvalidSettings if the server does not accept tokens that are signed here. One that is
    unavailable may be started later."""
    from holdfast.stores.http import HttpStore

    try:
        with HttpStore(server.url, server.token) as store:
            store.execute(c.Now())
    except TokenRefused:
        raise InvalidSettings(
            f"the server {server.url} does not accept tokens that are signed here, as its signing "
            "key is another",
            hint="set the same [api] signing_key here and on the server",
        ) from None
    except StoreUnavailable as error:
        log.warning("%s; trying again", error.message)


def _listen(
    popen: subprocess.Popen[bytes],
    channel: Channel,
    notices: Queue[Notice | None],
    settings: Settings,
) -> None:
    while (frame := channel.receive()) is not None:
        try:
            notice = upward_decoder.decode(frame[1])
        except msgspec.DecodeError as error:
            log.warning("the supervisor sent an invalid message; starting another one: %s", error)
            popen.kill()
            break
        if not isinstance(notice, NeedToken):
            notices.put(notice)
            continue
        try:
            channel.send(ORDER, encode(_use_server(settings)))
        except (HoldfastError, OSError) as error:
            log.warning("cannot send a new token to the supervisor: %s", error)
    popen.wait()
    notices.put(None)
