"""Resumable jobs in other systems, which outlive the task that watches them."""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from holdfast.access.identity import INTENT_SUFFIX
from holdfast.accessor.task_store import TaskStore
from holdfast.commands import ListAttempts, Now
from holdfast.errors import HoldfastError, InvalidInput
from holdfast.model.entry import TaskWriter
from holdfast.model.run import AttemptInfo, Outcome
from holdfast.portable.identifier import is_uuid
from holdfast.portable.retention import NEVER_EXPIRE
from holdfast.sdk.store_adapter import StoreAdapter, task_store

if TYPE_CHECKING:
    from holdfast.sdk.arguments import TaskSettings
    from holdfast.sdk.context import Context

CANCELLING: Final = 60.0
"""Seconds that a cancelled job has to end."""


class ResumableJobMixin(ABC):
    """Mixin for an operator that submits one job and waits for it: a retry reconnects to the job.

    `execute` calls `execute_resumable(context)`. An intent, `context["job_intent"]`, is stored
    before the job is submitted, and the job's id as soon as it is known. The intent stays the same
    until its job has failed. A subclass that passes it on to the other system (as a name, a tag,
    an idempotency key) and implements `find_job` never causes a second job: a retry that finds an
    intent without an id looks the job up.

    With `cancel_job`, the job ends with the task: when somebody clears or marks it while it runs,
    and at its `execution_timeout`. When only the runner stops or dies, the job goes on.
    """

    if TYPE_CHECKING:
        _settings: TaskSettings

        @property
        def log(self) -> logging.Logger: ...

    external_id_key: str = "remote_job_id"
    """The key of the job's id in the task store. Renaming it loses jobs that are under way."""

    def __init__(self, *, durable: bool = True, **kwargs: Any) -> None:
        """Initialize the operator. Without `durable`, each attempt submits its own job."""
        super().__init__(**kwargs)
        self.durable = durable
        self._watched: tuple[Any, Context] | None = None

    @abstractmethod
    def submit_job(self, context: Context) -> Any:
        """Start the job and return its id, which is JSON. `context["job_intent"]` names it."""

    @abstractmethod
    def get_job_status(self, external_id: Any, context: Context) -> str:
        """Return the job's current status in the other system."""

    @abstractmethod
    def is_job_active(self, status: str) -> bool:
        """Return whether the job waits or runs."""

    @abstractmethod
    def is_job_succeeded(self, status: str) -> bool:
        """Return whether the job has succeeded."""

    @abstractmethod
    def poll_until_complete(self, external_id: Any, context: Context) -> None:
        """Wait until the job has ended; raise if it failed."""

    @abstractmethod
    def get_job_result(self, external_id: Any, context: Context) -> Any:
        """Return the task's result once the job has succeeded."""

    def find_job(self, intent: str, context: Context) -> Any:
        """Return the id of the job that was submitted with this intent; None if there is none."""
        return None

    def cancel_job(self, external_id: Any, context: Context) -> None:  # noqa: B027
        """Cancel the job, which may have ended already. Optional."""

    def on_kill(self) -> None:
        """Cancel the job of the stopped task, unless a later attempt continues with it."""
        if self._watched is None or not self._can_cancel:
            return
        external_id, context = self._watched
        store = task_store(context, self.external_id_key)
        if self.durable and isinstance(store, TaskStore) and not self._is_stopped_for_good(store):
            return
        if external_id is None and self.durable:
            external_id = self.find_job(context["job_intent"], context)
        if external_id is not None:
            self.log.info("cancelling job %s", external_id)
            self.cancel_job(external_id, context)

    def execute_resumable(self, context: Context) -> Any:
        """Submit the job, or continue with the one of an earlier attempt, and return its result."""
        store = task_store(context, self.external_id_key) if self.durable else None
        if store is None:
            if self.durable:
                self.log.warning("the context has no task store, so a retry submits a new job")
            context["job_intent"] = str(uuid4())
            external_id = self.submit_job(context)
            self._poll(external_id, context)
            return self.get_job_result(external_id, context)
        external_id = self._known_job(store, context)
        if self._can_cancel and isinstance(store, TaskStore) and self._was_stopped(store):
            self._cancel(external_id, store, context)
            external_id = None
        if external_id is not None:
            status = self.get_job_status(external_id, context)
            if self.is_job_succeeded(status):
                self.log.info("job %s has already succeeded (%s)", external_id, status)
                return self._finish(store, external_id, context)
            if self.is_job_active(status):
                self.log.info("reconnecting to job %s (%s)", external_id, status)
            else:
                self.log.warning(
                    "job %s has failed (%s); submitting a new one", external_id, status
                )
                # In this order: a crash in between leaves an intent whose job is known to fail,
                # never an id that hides a job submitted after it.
                store.delete(self.external_id_key)
                self._renew_intent(store, context)
                external_id = self._submit(store, context)
        else:
            external_id = self._submit(store, context)
        self._poll(external_id, context)
        return self._finish(store, external_id, context)

    def _poll(self, external_id: Any, context: Context) -> None:
        self._watched = external_id, context
        self.poll_until_complete(external_id, context)
        self._watched = None

    @property
    def _can_cancel(self) -> bool:
        return type(self).cancel_job is not ResumableJobMixin.cancel_job

    def _is_stopped_for_good(self, store: TaskStore) -> bool:
        """Return whether the task was stopped by a user or its timeout, rather than the runner."""
        own = store.binding.writer
        assert isinstance(own, TaskWriter)
        [mine] = [one for one in _attempts(store) if one.number == own.attempt]
        if mine.outcome is None:
            limit = self._settings.execution_timeout
            return (
                limit is not None and store.binding.store.execute(Now()) - mine.started_at >= limit
            )
        return mine.outcome is Outcome.STOPPED

    def _was_stopped(self, store: TaskStore) -> bool:
        """Return whether a user has stopped an attempt that had the current intent."""
        entry = store.entry(self._intent_key)
        assert entry is not None
        return any(
            one.outcome is Outcome.STOPPED
            and one.ended_at is not None
            and one.ended_at >= entry.updated_at
            for one in _attempts(store)
        )

    def _cancel(self, external_id: Any, store: TaskStore, context: Context) -> None:
        """Cancel the job of an attempt that was stopped, and forget it.

        Raise HoldfastError if the job does not end.
        """
        if external_id is not None and self._is_active(external_id, context):
            self.log.info("cancelling job %s, because the task was cleared", external_id)
            self.cancel_job(external_id, context)
            deadline = time.monotonic() + CANCELLING
            while self._is_active(external_id, context):
                if time.monotonic() > deadline:
                    raise HoldfastError(
                        f"job {external_id} is still running {CANCELLING:.0f} s after it was "
                        "cancelled",
                        hint="stop it manually, and clear the task again",
                    )
                time.sleep(0.5)
        store.delete(self.external_id_key)
        self._renew_intent(store, context)

    def _is_active(self, external_id: Any, context: Context) -> bool:
        return self.is_job_active(self.get_job_status(external_id, context))

    @property
    def _intent_key(self) -> str:
        return f"{self.external_id_key}{INTENT_SUFFIX}"

    def _known_job(self, store: TaskStore | StoreAdapter, context: Context) -> Any:
        """Return the id of the job that earlier attempts submitted, or None if there is none.

        Raise InvalidInput if the stored intent is no UUID.
        """
        external_id = store.get(self.external_id_key)
        intent = store.get(self._intent_key)
        if intent is None:
            self._renew_intent(store, context)
            return external_id
        if not isinstance(intent, str) or not is_uuid(intent):
            # It names directories and jobs; anyone who may write the entry could choose any.
            raise InvalidInput(
                f"`{self._intent_key}` of the task store is {str(intent)[:60]!r}, which is not "
                "a UUID",
                hint="it was not written by this operator: delete that entry and "
                f"`{self.external_id_key}`, and check for jobs that are still running",
            )
        context["job_intent"] = intent
        if external_id is not None:
            return external_id
        if type(self).find_job is ResumableJobMixin.find_job:
            self.log.warning(
                "an earlier attempt ended before it stored the id of its job; this attempt "
                "submits a job again, so two may run. Implement find_job(intent, context) in "
                "%s to prevent that",
                type(self).__name__,
            )
            return None
        external_id = self.find_job(intent, context)
        if external_id is not None:
            self.log.info("found job %s of intent %s", external_id, intent)
            store.set(self.external_id_key, external_id, retention=NEVER_EXPIRE)
        return external_id

    def _renew_intent(self, store: TaskStore | StoreAdapter, context: Context) -> None:
        context["job_intent"] = intent = str(uuid4())
        store.set(self._intent_key, intent, retention=NEVER_EXPIRE)

    def _submit(self, store: TaskStore | StoreAdapter, context: Context) -> Any:
        self._watched = None, context
        external_id = self.submit_job(context)
        if external_id is None:
            self.log.warning("submit_job returned no id, so a retry cannot reconnect to this job")
        else:
            # While the job is under way its id must not expire: that would start a second one.
            store.set(self.external_id_key, external_id, retention=NEVER_EXPIRE)
        return external_id

    def _finish(self, store: TaskStore | StoreAdapter, external_id: Any, context: Context) -> Any:
        result = self.get_job_result(external_id, context)
        if external_id is not None:
            intent = context["job_intent"]
            store.set_many({self.external_id_key: external_id, self._intent_key: intent})
        return result


def _attempts(store: TaskStore) -> tuple[AttemptInfo, ...]:
    return store.binding.store.execute(ListAttempts(store.binding.scope))
