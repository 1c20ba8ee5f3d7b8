"""Watching the job of one intent."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from holdfast.errors import InvalidInput, SparkUnavailable, StaleAttempt
from holdfast.model.entry import TaskWriter
from holdfast.spark.jobs.claim import Claim, Claims
from holdfast.spark.jobs.clusters import Cluster, State, Status

if TYPE_CHECKING:
    from holdfast.accessor.task_store import TaskStore

AWAY: Final = 120.0
"""Seconds that a cluster may be unreachable before the attempt fails; its job goes on
regardless."""
SILENCE: Final = 20.0
"""Seconds without a heartbeat after which a driver that its cluster does not know is lost."""


class Watch:
    """Observes the job of one intent: the driver that has claimed it, or else the one that was
    submitted last."""

    def __init__(self, cluster: Cluster, store: TaskStore, key: str, intent: str) -> None:
        self.cluster = cluster
        self.intent = intent
        binding = store.binding
        writer = binding.writer
        assert isinstance(writer, TaskWriter)
        self.claims = Claims(binding.store, writer, key, intent)
        self.driver = ""
        """The driver that was observed last."""
        self._checked: set[str] = set()
        self._seen = -1
        self._seen_at = 0.0
        self._away_since: float | None = None

    def look(self, submitted: str) -> Status:
        """Return the status of the job. After a failure, no driver can claim the intent any
        more."""
        while True:
            status = self._ask(submitted)
            # In this order: a driver that lost the job exits after the other has claimed it.
            claim, version = self.claims.read()
            self.driver = submitted
            if claim is not None and claim.driver and claim.driver != submitted:
                self.driver = claim.driver
                status = self._ask(claim.driver)
            if status.state is State.UNKNOWN:
                status = self._combined(status, claim, version)
            if status.state.active or status.state is State.SUCCEEDED:
                return status
            if claim is not None and status.state is not State.UNKNOWN:
                return status
            if self.claims.close(version):
                lost = status.state is State.UNKNOWN
                return Status(State.FAILED, status.detail) if lost else status

    def cancel(self, submitted: str) -> None:
        claim, version = self.claims.read()
        with suppress(StaleAttempt):  # the next attempt owns the job
            while claim is None and not self.claims.close(version):
                claim, version = self.claims.read()
        for driver in filter(None, dict.fromkeys((submitted, claim.driver if claim else ""))):
            self._check(driver)
            self.cluster.cancel(driver)

    def _check(self, driver: str) -> None:
        """Raise InvalidInput if the driver belongs to another job."""
        if driver in self._checked:
            return
        if not self.cluster.is_driver_of(driver, self.intent):
            raise InvalidInput(
                f"{driver[:60]!r} is not a driver of the job {self.intent}",
                hint="another program has written this id: delete the job's entries from the task "
                "store, and clear the task",
            )
        self._checked.add(driver)

    def _ask(self, driver: str) -> Status:
        """Return a driver's status. While a cluster is briefly unreachable, report it as
        waiting."""
        self._check(driver)
        try:
            status = self.cluster.status(driver)
        except SparkUnavailable as error:
            now = time.monotonic()
            self._away_since = self._away_since or now
            if now > self._away_since + AWAY:
                raise
            return Status(State.WAITING, error.message)
        self._away_since = None
        return status

    def _combined(self, status: Status, claim: Claim | None, version: int) -> Status:
        """Return the status by the driver's own claim, if the cluster does not know the driver."""
        if claim is not None and claim.succeeded is not None:
            return Status(
                State.SUCCEEDED if claim.succeeded else State.FAILED, "reported by the driver"
            )
        if claim is not None and not claim.driver:
            return Status(State.FAILED, status.detail)
        now = time.monotonic()
        if version != self._seen:
            self._seen, self._seen_at = version, now
        if now < self._seen_at + SILENCE:
            return Status(State.RUNNING, "unknown to the cluster; waiting for its heartbeat")
        return Status(State.UNKNOWN, status.detail or "the cluster no longer knows it")
