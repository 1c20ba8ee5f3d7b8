"""Alerts of a scheduler or `holdfast run`: raised with the end of runs, and delivered."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from threading import Event, Thread
from typing import Final

import msgspec

from holdfast import commands as c
from holdfast.actions.alerts import WEBHOOK_TIMEOUT, configured_channels, deliver
from holdfast.errors import AlertNotDelivered, HoldfastError
from holdfast.model.alert import Alert, AlertKind, Channel, document, of_failed_run
from holdfast.model.run import Run, RunState, TaskInstance
from holdfast.settings import Settings
from holdfast.store import Store

POLL: Final = 1.0
"""Seconds between looks for alerts that are due."""
CHECK_INTERVAL: Final = timedelta(seconds=10)
LEASE: Final = timedelta(minutes=5)
"""Time to deliver an alert; longer than the timeout of any channel."""
FIRST_PAUSE: Final = 10.0
LONGEST_PAUSE: Final = 600.0
GIVE_UP_AFTER: Final = timedelta(days=1)
AT_ONCE: Final = 3
"""Alerts that `holdfast run` delivers before it exits: its own, and perhaps older ones."""
STOP_TIMEOUT: Final = WEBHOOK_TIMEOUT + 5
"""Seconds that a delivery in progress has when its scheduler stops."""

log = logging.getLogger("holdfast.alerts")


class Alerting:
    """Raises and delivers alerts, by the channels that are configured; by default there are none.

    Several schedulers share the work: each alert is taken by one of them. One that dies during a
    delivery has not recorded it, so another delivers it again.
    """

    def __init__(self, store: Store, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        self._channels = configured_channels(settings)
        self._unknown: dict[str, tuple[str, ...]] = {}
        """The names of late assets that no asset had at the last check of each channel."""
        self._stopping = Event()
        self._threads = [
            # One for each, so that a receiver that hangs delays nothing else.
            Thread(target=self._work, args=(channel,), daemon=True)
            for channel in self._channels
        ]

    def start(self) -> None:
        """Check conditions and deliver alerts, in threads, until `stop`."""
        for channel in set(Channel) - set(self._channels):
            self._store.execute(c.WithdrawAlerts(channel))
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop soon; what has not been delivered stays for the next scheduler."""
        self._stopping.set()
        deadline = time.monotonic() + STOP_TIMEOUT
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    def of_end(self, run: Run, state: RunState, tasks: Sequence[TaskInstance]) -> c.NewAlert | None:
        """Return the alert to raise with the end of a run, if any."""
        if state is not RunState.FAILED or not self._channels:
            return None
        facts = of_failed_run(run, tasks)
        return c.NewAlert(self._channels, msgspec.json.encode(facts).decode())

    def deliver_newest(self) -> None:
        """Deliver a few alerts that are due, new ones first. The others are left to a scheduler."""
        try:
            for channel in self._channels:
                for _ in range(AT_ONCE):
                    if not self._deliver_one(channel):
                        break
        except HoldfastError as error:
            log.warning("alerts cannot be delivered: %s", error.message)

    def _work(self, channel: Channel) -> None:
        next_check = 0.0
        failing = False
        while not self._stopping.is_set():
            try:
                if time.monotonic() >= next_check:
                    next_check = time.monotonic() + CHECK_INTERVAL.total_seconds()
                    self._check(channel)
                if self._deliver_one(channel):
                    continue
                failing = False
            except HoldfastError as error:
                if not failing:
                    log.warning("alerts cannot be delivered, retrying: %s", error.message)
                failing = True
            except Exception:
                log.exception("alerts failed, retrying")
            self._stopping.wait(POLL)

    def _check(self, channel: Channel) -> None:
        late_after = self._settings.alerts.late_assets
        check = c.CheckConditions(channel=channel, late_after=late_after, interval=CHECK_INTERVAL)
        unknown = self._store.execute(check)
        if unknown is None or unknown == self._unknown.get(channel, ()):
            return
        self._unknown[channel] = unknown
        for name in unknown:
            log.warning(
                "[alerts] late_assets names `%s`, and no asset has this name: it cannot be late "
                "before a DAG declares it",
                name,
            )

    def _deliver_one(self, channel: Channel) -> bool:
        """Deliver an alert that is due; return whether there was one."""
        alert = self._store.execute(c.TakeAlert(channel=channel, lease=LEASE))
        if alert is None:
            return False
        sent = document(alert)
        error = "it was not delivered within a day" if _is_outdated(alert) else ""
        try:
            if not error:
                deliver(self._settings, channel, sent)
                log.info("delivered alert %s to the %s: %s", alert.id, channel, sent["text"])
        except AlertNotDelivered as refusal:
            error = refusal.message
        pause = None if _is_outdated(alert) else _pause(alert.tries)
        if error:
            next_try = "given up" if pause is None else f"retried in {pause.total_seconds():.0f} s"
            log.warning("alert %s is %s: %s", alert.id, next_try, error)
        finish = c.FinishAlert(
            alert_id=alert.id, status=alert.status, error=error, retry_after=pause
        )
        self._store.execute(finish)
        return True


def _is_outdated(alert: Alert) -> bool:
    """Return whether an alert is too old to be delivered. It is not while its condition lasts."""
    ended = alert.raised_at if alert.kind is AlertKind.RUN_FAILED else alert.resolved_at
    return ended is not None and datetime.now(UTC) - ended > GIVE_UP_AFTER


def _pause(tries: int) -> timedelta:
    """Return the time until the next delivery, after a number of tries."""
    return timedelta(seconds=min(FIRST_PAUSE * 2 ** min(tries - 1, 10), LONGEST_PAUSE))
