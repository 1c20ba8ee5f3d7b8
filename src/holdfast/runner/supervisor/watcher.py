"""Supervision of one watcher of an asset, which is restarted whenever it ends."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable
from threading import Event, Timer

from holdfast import commands as c
from holdfast.access.identity import WatcherIdentity
from holdfast.actions.logs import watcher_log
from holdfast.errors import Conflict, HoldfastError
from holdfast.model.run import Watch
from holdfast.model.scope import AssetScope
from holdfast.portable.backoff import Backoff
from holdfast.process import has_ended, this_process
from holdfast.runner.protocol.messages import STARTUP, Failed, WatchStartup
from holdfast.runner.protocol.orders import WatchAsset
from holdfast.runner.protocol.parameters import LEASE
from holdfast.runner.supervisor.attempt import STOP_DELAY, Resources, got_sigterm
from holdfast.runner.supervisor.ending import exit_text
from holdfast.runner.supervisor.launcher_link import Child
from holdfast.runner.supervisor.relay import relay
from holdfast.wire.channel import encode

FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
GRACE = 5.0
"""Seconds that a trigger has to clean up before it is killed."""

log = logging.getLogger("holdfast.triggerer")


class Watching:
    """One watcher of an asset. `run` has its own thread; others call `stop` and `lose`."""

    def __init__(
        self, order: WatchAsset, resources: Resources, on_failure: Callable[[], None]
    ) -> None:
        self._order = order
        self._on_failure = on_failure
        self._resources = resources
        self._stopped = Event()
        self._child: Child | None = None
        self.watch: Watch | None = None
        """The watch whose lease is to be renewed, while there is one."""

    def run(self) -> None:
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while not self._stopped.is_set():
            started = time.monotonic()
            failure = self._watch_once()
            if not failure or time.monotonic() > started + LONGEST_PAUSE:
                backoff.reset()
            pause = backoff.pause()
            if failure:
                self._on_failure()
                log.warning("%s failed: %s; restarting in %.0f s", self.name, failure, pause)
            self._stopped.wait(pause)

    def stop(self) -> None:
        """End the watcher for good."""
        self._stopped.set()
        self.lose()

    def lose(self) -> None:
        """End the trigger, with time to clean up, as another process has the watch now.

        The watch is claimed again later.
        """
        if self._child is not None:
            self._child.kill(signal.SIGTERM)
            timer = Timer(GRACE, self._child.kill)
            timer.daemon = True
            timer.start()

    @property
    def name(self) -> str:
        spec = self._order.watcher
        return f"watcher `{spec.name}` of asset `{spec.asset.name}`"

    def _watch_once(self) -> str:
        """Run the watcher until it ends; return why it failed, or an empty string."""
        try:
            self.watch = self._claim()
            log.info("watching asset `%s` with `%s`", self.watch.asset.name, self.watch.watcher)
            return self._run_child(self.watch)
        except Conflict:
            return ""  # another triggerer has the watch; that one may end some day
        except (HoldfastError, OSError) as error:
            return str(error)
        except Exception as error:  # a bug of ours, which must not end the watcher for good
            log.exception("supervising %s failed", self.name)
            return f"{type(error).__name__}: {error}"
        finally:
            self.watch = None

    def _claim(self) -> Watch:
        store, name = self._resources.store, self._order.watcher.name
        asset = AssetScope(name=self._order.watcher.asset.name)
        owners = (
            info.owner
            for info in store.execute(c.ListWatches())
            if (info.watch.asset.name, info.watch.watcher) == (asset.name, name) and info.owner
        )
        dead = next(filter(has_ended, owners), None)
        start = c.StartWatch(
            asset=asset, watcher=name, process=this_process(), lease=LEASE, dead=dead
        )
        return store.execute(start)

    def _run_child(self, watch: Watch) -> str:
        with self._resources.launcher.launch() as child:
            self._child = child
            if self._stopped.is_set():
                return ""
            spec = self._order.watcher
            child.log_to(watcher_log(self._resources.home, spec.asset.name, spec.name))
            startup = WatchStartup(
                file=self._order.file,
                dag_id=self._order.dag_id,
                watch=watch,
                rules=self._resources.rules,
            )
            child.channel.send(STARTUP, encode(startup))
            identity, limit = WatcherIdentity(watch), self._resources.rules.max_value_bytes
            report = relay(child.channel, self._resources.store, identity, limit)
        if got_sigterm(report, child.status):
            # Asked to end by `lose`, or by a stop of all processes, of which this one is about to
            # learn: that is no failure.
            if not self._stopped.wait(STOP_DELAY):
                log.info("%s was asked to end", self.name)
            return ""
        if self._stopped.is_set():
            return ""
        if isinstance(report, Failed):
            return report.error
        return "" if report else exit_text(child.status)
