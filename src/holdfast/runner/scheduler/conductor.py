"""Execution of runs: decides what comes next in each, and orders it from a supervisor."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from typing import NamedTuple

import msgspec

from holdfast import commands as c
from holdfast.errors import (
    Conflict,
    HoldfastError,
    InvalidDag,
    NotFound,
    RunnerFailed,
    StaleAttempt,
)
from holdfast.model.dag import CallbackKind, DagSpec
from holdfast.model.entry import ApiWriter
from holdfast.model.run import AttemptInfo, Outcome, Run, RunState, TaskInstance, TaskState
from holdfast.model.scope import TaskScope
from holdfast.monitoring import tracing
from holdfast.monitoring.tracing import Span
from holdfast.process import has_ended, kill_group, this_process
from holdfast.runner.protocol.messages import Parsed
from holdfast.runner.protocol.orders import (
    AttemptEnd,
    CallBack,
    CalledBack,
    Ended,
    FileParsed,
    Notice,
    ParseFile,
    RunTask,
    WarmSpark,
)
from holdfast.runner.protocol.parameters import CALLBACKS, HEARTBEAT, LEASE, MOST_INTERRUPTIONS
from holdfast.runner.scheduler.alerting import Alerting
from holdfast.runner.scheduler.dag_files import printable_path
from holdfast.runner.scheduler.decide import Decision, Start, decide
from holdfast.runner.scheduler.journal import Journal
from holdfast.runner.scheduler.limits import Limits, Ready
from holdfast.runner.service.supervisor_link import SupervisorLink
from holdfast.settings import Settings
from holdfast.stores.offload.configuration import Offloading
from holdfast.stores.offload.objects.opening import check_installed

LONGEST_CALLBACK_PAUSE = 60.0
"""Longest pause in seconds before callbacks are retried whose DAG file cannot be imported."""
CHECK_INTERVAL = 1.0
"""Seconds after which a run is checked in any case: somebody may have cleared a task of it."""

SCHEDULER = ApiWriter("scheduler")

log = logging.getLogger("holdfast.scheduler")


class PendingCall(NamedTuple):
    """An attempt whose callbacks may not have been called."""

    before: TaskInstance
    """The task instance as it was before the attempt."""
    interrupted: bool = False
    """Call them for an interruption only: another supervisor calls them for other outcomes."""

    @property
    def attempt(self) -> int:
        return self.before.attempt + 1


class Ordered(NamedTuple):
    """An attempt that the supervisor was ordered to start and has not reported the end of."""

    number: int
    before: TaskInstance
    """The task instance as it was before the attempt."""


@dataclass
class Call:
    """Callbacks that were ordered and have not returned."""

    order: CallBack
    tries: int = 0
    """Number of times that the supervisor died."""
    waits: int = 0
    """Number of times that the DAG's file could not be imported."""
    again_at: float | None = None
    """Time of the next try on the monotonic clock; None while one is under way."""


@dataclass
class ActiveRun:
    """A run that this process holds."""

    run: Run
    dag: DagSpec
    tasks: Sequence[TaskInstance] = ()
    """The task instances as they were at the last check."""
    ordered: dict[TaskScope, Ordered] = field(default_factory=dict)
    pending: dict[TaskScope, PendingCall] = field(default_factory=dict)
    """Attempts that have lost their supervisor, or whose callbacks it could not call."""
    look_at: float = 0.0
    """Time of the next check on the monotonic clock."""
    ready: Ready | None = None
    """The task instances that may start as soon as limits allow it; None for none."""
    limited: dict[str, str] = field(default_factory=dict)
    """The limits by which tasks were waiting a moment ago, by task."""
    reported: dict[str, str] = field(default_factory=dict)
    """Those of them that the store knows."""
    logged: set[str] = field(default_factory=set)
    span: Span = field(default_factory=Span)

    @property
    def key(self) -> tuple[str, str]:
        return self.run.dag_id, self.run.run_id


class Conductor:
    """The runs that this process holds, and its supervisor. `close` ends both."""

    def __init__(self, settings: Settings, journal: Journal) -> None:
        tracing.configure(settings.tracing)
        Offloading.of(settings).check()
        if settings.logs.url:
            check_installed("[logs] url")
        self._supervisor = SupervisorLink(settings)
        # Imported while the supervisor starts: loading the database library takes as long.
        from holdfast.connection import open_store

        self.store = open_store(settings, retry_window=settings.core.retry_window)
        self.alerting = Alerting(self.store, settings)
        self._journal = journal
        self._limits = Limits(self.store, settings.parallelism)
        self.runs: dict[tuple[str, str], ActiveRun] = {}
        self.dags: dict[str, DagSpec] = {}
        """The DAGs as currently defined by their files. For a DAG that is absent, because its file
        is broken or missing, no task is started and no callback is called."""
        self._importing: Counter[str] = Counter()
        """Files, with the number of times that the supervisor died while it imported them."""
        self._parsed: list[FileParsed] = []
        self._calls: dict[int, Call] = {}
        self._numbers = count(1)
        self._spark = False
        self._not_begun: Counter[TaskScope] = Counter()
        self._renewed = time.monotonic()
        self._reported = time.monotonic()

    def parse(self, file: str) -> None:
        """Order the import of a file; `parsed` will return its DAGs or its error."""
        if (shown := printable_path(file)) != file:
            error = InvalidDag(
                f"the path {shown} has control characters, or bytes that are not UTF-8",
                hint="rename the file or directory",
            )
            self._parsed.append(FileParsed(file, Parsed(error=str(error))))
            return
        self._importing[file] = 0
        self._supervisor.order(ParseFile(file))

    def parsed(self) -> list[FileParsed]:
        """Return the results of imports since the last call."""
        parsed, self._parsed = self._parsed, []
        return parsed

    @property
    def calls_back(self) -> bool:
        """True while callbacks are still to be called, or have not returned; but not for those
        whose DAG file could repeatedly not be imported, which may last."""
        return any(call.waits < MOST_INTERRUPTIONS for call in self._calls.values())

    def warm_spark(self) -> None:
        """Have the supervisor start Spark for future tasks."""
        self._spark = True
        self._supervisor.order(WarmSpark())

    def adopt(self, run: Run, dag: DagSpec, most_running: int | None = None) -> ActiveRun:
        """Claim a run and carry it out from now on.

        Raise Conflict if a live process holds it, or if it would begin and `most_running` runs of
        its DAG are running already.
        """
        dead = run.owner if run.owner is not None and has_ended(run.owner) else None
        claimed = self.store.execute(
            c.ClaimRun(
                dag_id=run.dag_id,
                run_id=run.run_id,
                process=this_process(),
                lease=LEASE,
                dead=dead,
                most_running=most_running,
            )
        )
        active = self.runs[run.dag_id, run.run_id] = ActiveRun(claimed, dag)
        active.span = tracing.begin(
            f"run {run.dag_id}",
            dag_id=run.dag_id,
            run_id=run.run_id,
            resumed=run.state is RunState.RUNNING,
        )
        self._journal.run_started(claimed, run)
        self.dags.setdefault(dag.dag_id, dag)
        self._interrupt_attempts(active, "the process that executed the run ended")
        if any(task.spark for task in dag.tasks):
            self.warm_spark()
        return active

    def turn(self, timeout: float) -> None:
        """Wait for notices until work is due, or for up to `timeout` seconds; handle them, and do
        the work that is due."""
        due = min((active.look_at for active in self.runs.values()), default=float("inf"))
        wait = max(0.0, min(timeout, due - time.monotonic()))
        for notice in self._supervisor.notices(wait):
            self._handle_notice(notice)
        now = time.monotonic()
        if now > self._renewed + HEARTBEAT:
            self._renewed = now
            self._renew_leases()
        for active in list(self.runs.values()):
            if now >= active.look_at:
                self._advance_run(active)
        self._start_attempts()
        if now > self._reported + CHECK_INTERVAL:
            self._reported = now
            self._report_waits()
        for call in list(self._calls.values()):
            if call.again_at is not None and now >= call.again_at:
                self._order_callbacks(call)

    def close(self) -> None:
        """Interrupt the running attempts, release the runs for other processes, and close the
        store."""
        self.stop()
        self.store.close()

    def stop(self) -> None:
        """Interrupt the running attempts, and release the runs for other processes."""
        for call in self._calls.values():
            if call.again_at is not None:
                log.warning("callbacks of %s were not called and are not retried", call.order.whose)
        for notice in self._supervisor.stop():
            if isinstance(notice, Ended) and notice.end is not None:
                self._journal.attempt_ended(notice.scope, notice.end)
        for dag_id, run_id in self.runs:
            try:
                self.store.execute(c.ReleaseRun(dag_id, run_id, this_process()))
            except HoldfastError as error:
                log.warning("run %s of %s was not released: %s", run_id, dag_id, error.message)
        for active in list(self.runs.values()):
            self._leave(active)

    def abandon(self) -> None:
        """Kill the supervisor at once, without notice to the tasks."""
        self._supervisor.kill()

    def _handle_notice(self, notice: Notice | None) -> None:
        if notice is None:
            self._recover_orders()
        elif isinstance(notice, FileParsed):
            self._importing.pop(notice.file, None)
            self._parsed.append(notice)
        elif isinstance(notice, Ended):
            if notice.error:
                log.warning("%s: %s", notice.scope, notice.error)
            if notice.end is not None:
                self._journal.attempt_ended(notice.scope, notice.end)
            self._count_start(notice)
            scope = notice.scope
            pool = self._limits.give_back(notice.number)
            if pool is not None and notice.refused:
                self._limits.close_pool(pool)
            if (concerned := self.runs.get((scope.dag_id, scope.run_id))) is not None:
                ordered = concerned.ordered.get(scope)
                if ordered is not None and ordered.number == notice.number:
                    del concerned.ordered[scope]
                    if not notice.called:
                        concerned.pending[scope] = PendingCall(ordered.before)
                concerned.look_at = time.monotonic() + CHECK_INTERVAL if notice.error else 0.0
        elif isinstance(notice, CalledBack):
            if notice.called:
                self._calls.pop(notice.number, None)
            elif notice.number in self._calls:
                self._postpone_callbacks(notice.number)

    def _count_start(self, notice: Ended) -> None:
        """Count failed starts. Raise RunnerFailed if an attempt repeatedly gets no process."""
        if notice.begun:
            self._not_begun.pop(notice.scope, None)
            return
        self._not_begun[notice.scope] += 1
        if self._not_begun[notice.scope] >= MOST_INTERRUPTIONS:
            raise RunnerFailed(
                f"{notice.scope} could not be started, {MOST_INTERRUPTIONS} times in a row: "
                f"{notice.error}",
                hint="see the launcher's messages above",
            )

    def _recover_orders(self) -> None:
        """Have a new supervisor redo what the previous one was doing."""
        self._limits.give_back_all()
        for active in self.runs.values():
            active.pending |= {
                scope: PendingCall(ordered.before) for scope, ordered in active.ordered.items()
            }
            active.ordered.clear()
            active.look_at = 0.0
        for file in list(self._importing):
            self._retry_import(file)
        for number, call in list(self._calls.items()):
            if call.again_at is None:
                self._retry_callbacks(number)
        if self._spark:
            self.warm_spark()
        for active in list(self.runs.values()):
            try:
                self._interrupt_attempts(active, "the supervisor died")
            except (StaleAttempt, NotFound) as error:
                log.warning("%s", error.message)
                self._leave(active)

    def _retry_import(self, file: str) -> None:
        """Retry an import, up to a limit: a file that kills supervisors is broken; others go on."""
        self._importing[file] += 1
        if self._importing[file] < MOST_INTERRUPTIONS:
            self._supervisor.order(ParseFile(file))
            return
        why = f"the supervisor died, {MOST_INTERRUPTIONS} times in a row"
        error = f"{file} could not be imported: {why}"
        self._handle_notice(FileParsed(file, Parsed(error=error)))

    def _postpone_callbacks(self, number: int) -> None:
        """Retry callbacks whose DAG file cannot be imported, until it can."""
        call = self._calls[number]
        if not call.waits:
            log.warning("callbacks of %s wait until their DAG file is fixed", call.order.whose)
        pause = CHECK_INTERVAL * 2 ** min(call.waits, 10)
        call.again_at = time.monotonic() + min(pause, LONGEST_CALLBACK_PAUSE)
        call.waits += 1

    def _retry_callbacks(self, number: int) -> None:
        """Retry callbacks with backoff, up to a limit: they, too, may be what kills supervisors."""
        call = self._calls[number]
        call.tries += 1
        if call.tries < MOST_INTERRUPTIONS:
            call.again_at = time.monotonic() + CHECK_INTERVAL * 2 ** (call.tries - 1)
            return
        log.warning(
            "callbacks of %s are not retried: the supervisor died, %s times in a row",
            *(call.order.whose, MOST_INTERRUPTIONS),
        )
        del self._calls[number]

    def _order_callbacks(self, call: Call) -> None:
        """Order callbacks, or postpone them if the DAG's file is broken or missing. Drop those of a
        task that the DAG no longer has."""
        dag = self.dags.get(call.order.run.dag_id)
        if dag is None:
            call.again_at = time.monotonic() + CHECK_INTERVAL
            return
        attempt = call.order.attempt
        if attempt is not None and dag.task(attempt.task.task_id) is None:
            _log_removed(attempt.instance.scope)
            del self._calls[call.order.number]
            return
        call.again_at = None
        call.order = call.order.from_file(dag.file)
        self._supervisor.order(call.order)

    def _interrupt_attempts(self, active: ActiveRun, reason: str, expired: bool = False) -> None:
        """Interrupt attempts of the run that nobody supervises, and kill their processes."""
        dag_id, run_id = active.key
        running = c.ListTaskInstances(dag_id=dag_id, run_id=run_id, states=(TaskState.RUNNING,))
        alone = [one for one in self.store.execute(running) if one.scope not in active.ordered]
        for one in alone:
            before = msgspec.structs.replace(one, attempt=one.attempt - 1)
            active.pending.setdefault(one.scope, PendingCall(before, interrupted=True))
        self.store.execute(
            c.InterruptAttempts(
                dag_id=dag_id,
                run_id=run_id,
                process=this_process(),
                limit=MOST_INTERRUPTIONS,
                reason=reason,
                expired=expired,
            )
        )
        # Not from the response, which is incomplete if the first was lost and the command retried.
        still = {one.scope for one in self.store.execute(running)}
        for one in alone:
            if one.scope not in still:
                attempt = self._find_attempt(one.scope, one.attempt)
                if attempt and attempt.outcome is Outcome.INTERRUPTED:
                    if attempt.worker:
                        kill_group(attempt.worker)
                    self._journal.attempt_ended(one.scope, _interrupted(one, attempt.error))

    def _leave(self, active: ActiveRun) -> None:
        """Hold a run no more: it has ended, was released, or another process has it."""
        self.runs.pop(active.key, None)
        active.span.end()

    def _find_attempt(self, scope: TaskScope, number: int) -> AttemptInfo | None:
        attempts = self.store.execute(c.ListAttempts(scope))
        return next((one for one in attempts if one.number == number), None)

    def _renew_leases(self) -> None:
        if not self.runs:
            return
        heartbeat = c.Heartbeat(process=this_process(), lease=LEASE, runs=tuple(self.runs))
        for key in self.store.execute(heartbeat).runs:
            log.warning("run %s of %s was ended by a user, or taken over", key[1], key[0])
            if (active := self.runs.get(key)) is not None:
                self._leave(active)

    def _advance_run(self, active: ActiveRun) -> None:
        """Advance a run as far as possible now; give it up if others deleted, ended or took it."""
        active.look_at = time.monotonic() + CHECK_INTERVAL
        active.ready = None
        try:
            decision = self._apply_decisions(active)
            held = active.run.dag_id not in self.dags
            calls = active.dag.callbacks or active.pending
            if decision.ended is not None and not (held and calls):
                self._finish_run(active, decision.ended)
        except (StaleAttempt, NotFound) as error:
            log.warning("%s", error.message)
            self._leave(active)
            return
        except Conflict as error:
            log.info("%s", error.message)
            return
        if decision.start and not held:
            active.ready = Ready(active.dag, active.tasks, decision.start)
        if decision.wake_at is not None:
            wait = (decision.wake_at - datetime.now(UTC)).total_seconds()
            active.look_at = min(active.look_at, time.monotonic() + max(wait, 0.0))

    def _apply_decisions(self, active: ActiveRun) -> Decision:
        """Make changes until none are left; return the tasks to start, or the run's end."""
        dag_id, run_id = active.key

        def results(task_id: str, key: str) -> Sequence[tuple[int, str]]:
            return self.store.execute(c.GetResults(dag_id, run_id, task_id, key))

        made: Decision | None = None
        unbegun: set[Start] = set()
        """Task instances that were just failed without an attempt."""
        while True:
            tasks = self.store.execute(c.ListTaskInstances(dag_id=dag_id, run_id=run_id))
            active.tasks = [
                msgspec.structs.replace(one, state=TaskState.RUNNING)
                if one.scope in active.ordered
                else one
                for one in tasks
            ]
            others = (one.state for one in tasks if one.scope not in active.ordered)
            if TaskState.RUNNING in others:  # an earlier supervisor began it
                self._interrupt_attempts(active, "no process supervised it any more", expired=True)
            self._request_pending_callbacks(active)
            for one in tasks:
                is_unbegun = (one.scope.task_id, one.scope.map_index) in unbegun
                if is_unbegun and one.state is TaskState.FAILED:
                    self._request_callbacks(active, "failure", one.error, one)
            unbegun = set()
            if self._fail_overdue_tasks(active, tasks):
                continue
            decision = decide(active.dag, active.tasks, datetime.now(UTC), results)
            if not decision.changes or decision == made:
                return decision
            made = decision
            changes = c.ChangeTasks(dag_id, run_id, this_process(), decision.changes)
            self.store.execute(changes)
            for change in decision.changes:
                if change.state.ended:
                    scope = TaskScope(dag_id, run_id, change.task_id, change.map_index)
                    self._journal.task_changed(scope, change.state, change.error)
            unbegun = {
                (change.task_id, change.map_index)
                for change in decision.changes
                if change.state is TaskState.FAILED
            }

    def _request_pending_callbacks(self, active: ActiveRun) -> None:
        """Call the callbacks of ended attempts whose supervisor may not have called them."""
        for one in active.tasks:
            if one.scope not in active.pending or one.state is TaskState.RUNNING:
                continue
            pending = active.pending.pop(one.scope)
            kind = CALLBACKS.get(one.state) if one.state else None
            if kind is None or one.attempt != pending.attempt:
                continue  # it goes on, or somebody has cleared it
            attempt = self._find_attempt(one.scope, pending.attempt)
            if attempt is None or attempt.outcome is Outcome.STOPPED:
                continue  # somebody has marked it
            if not pending.interrupted or attempt.outcome is Outcome.INTERRUPTED:
                # Counted as one failed try: its own supervisor may have begun to call them.
                self._request_callbacks(active, kind, one.error, pending.before, tries=1)

    def _request_callbacks(
        self,
        active: ActiveRun,
        kind: CallbackKind,
        error: str,
        before: TaskInstance | None = None,
        tries: int = 0,
    ) -> None:
        """Call the callbacks, if any, of a task or, without `before`, of the run.

        `before` is the task instance as it was before its attempt.
        """
        attempt = None
        callbacks = active.dag.callbacks
        if before is not None:
            task = active.dag.task(before.scope.task_id)
            if task is None:
                _log_removed(before.scope)
                return
            callbacks = task.callbacks
            attempt = RunTask(0, active.dag.file, active.run, task, before)
        if kind in callbacks:
            number = next(self._numbers)
            order = CallBack(number, active.dag.file, active.run, kind, error, attempt)
            self._calls[number] = Call(order, tries)
            self._order_callbacks(self._calls[number])

    def _fail_overdue_tasks(self, active: ActiveRun, tasks: Sequence[TaskInstance]) -> bool:
        """Fail the unfinished tasks of a run that exceeds its timeout; return whether any were."""
        limit, started = active.dag.run_timeout, active.run.started_at
        if limit is None or started is None or datetime.now(UTC) < started + limit:
            return False
        # By the states in the store: an ordered attempt may have ended, and gets its callbacks.
        unfinished = [one for one in tasks if one.state is None or not one.state.ended]
        reason = f"the run took longer than its dagrun_timeout of {limit}"
        for one in unfinished:
            mark = c.MarkTask(
                scope=one.scope,
                state=TaskState.FAILED,
                writer=SCHEDULER,
                reason=reason,
                unless_ended=True,
            )
            self.store.execute(mark)
            self._journal.task_changed(one.scope, TaskState.FAILED, reason)
        return bool(unfinished)

    def _start_attempts(self) -> None:
        """Order the next attempts of task instances, as far as limits allow."""
        waiting = {
            one.ready: one
            for one in self.runs.values()
            if one.ready is not None and one.run.dag_id in self.dags
        }
        for ready, task, instance in self._limits.choose(list(waiting)):
            active, number = waiting[ready], next(self._numbers)
            self._limits.take(number, active.run.dag_id, task)
            active.ordered[instance.scope] = Ordered(number, instance)
            what = (active.dag.file, active.run, task, instance, active.span.traceparent)
            self._supervisor.order(RunTask(number, *what))

    def _report_waits(self) -> None:
        """Save, and log once, the limits by which tasks have been waiting since the last call."""
        changed: list[tuple[ActiveRun, dict[str, str]]] = []
        for active in self.runs.values():
            limited = {} if active.ready is None else self._limits.reasons(active.ready)
            lasting = {
                task: why for task, why in limited.items() if active.limited.get(task) == why
            }
            active.limited = limited
            if lasting != active.reported:
                changed.append((active, lasting))
            for task, why in lasting.items():
                if (text := f"{task} waits for {why}") not in active.logged:
                    active.logged.add(text)
                    log.info("run %s of %s: %s", active.run.run_id, active.run.dag_id, text)
        if changed:
            waits = tuple(c.Waits(*active.key, lasting) for active, lasting in changed)
            self.store.execute(c.ReportWaits(this_process(), waits))
            for active, lasting in changed:
                active.reported = lasting

    def _finish_run(self, active: ActiveRun, state: RunState) -> None:
        dag_id, run_id = active.key
        waiting = sum(one.state is not None and not one.state.ended for one in active.tasks)
        alert = self.alerting.of_end(active.run, state, active.tasks)
        self.store.execute(c.FinishRun(dag_id, run_id, this_process(), state, waiting, alert))
        active.run = self.store.execute(c.GetRun(dag_id, run_id))
        failed = [one for one in active.tasks if one.state is TaskState.FAILED]
        error = f"{failed[0].scope}: {failed[0].error}" if failed else ""
        active.span.note("" if state is RunState.SUCCESS else error or state, state=state.value)
        self._leave(active)
        self._journal.run_ended(active.run, active.tasks)
        self._request_callbacks(
            active, "success" if state is RunState.SUCCESS else "failure", error
        )


def _log_removed(scope: TaskScope) -> None:
    log.warning("callbacks of %s are not called: the DAG no longer has this task", scope)


def _interrupted(before: TaskInstance, error: str) -> AttemptEnd:
    """Return the end of an attempt that was interrupted because nobody supervised it."""
    last = before.interruptions + 1 >= MOST_INTERRUPTIONS
    return AttemptEnd(
        attempt=before.attempt,
        outcome=Outcome.INTERRUPTED,
        state=TaskState.FAILED if last else TaskState.SCHEDULED,
        error=error,
    )
