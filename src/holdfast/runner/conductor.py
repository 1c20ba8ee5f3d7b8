"""Carrying runs out: decides what comes next in each, and has a supervisor do it."""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count

import msgspec

from holdfast import run_command as r
from holdfast.dagspec import CallbackKind, DagSpec
from holdfast.entry import ApiWriter
from holdfast.errors import (
    Conflict,
    HoldfastError,
    InvalidDag,
    NotFound,
    RunnerFailed,
    StaleAttempt,
)
from holdfast.offloading import Offloading
from holdfast.run import Run, RunState, TaskInstance, TaskState
from holdfast.runner.attempt import CALLBACKS, HEARTBEAT, LEASE
from holdfast.runner.dagfiles import printable
from holdfast.runner.decide import Decision, decide
from holdfast.runner.ending import MOST_INTERRUPTIONS
from holdfast.runner.messages import Parsed
from holdfast.runner.orders import (
    CallBack,
    CalledBack,
    Ended,
    FileParsed,
    Notice,
    ParseFile,
    RunTask,
    WarmSpark,
)
from holdfast.runner.process import has_ended, kill_group, this_process
from holdfast.runner.supervisor import SupervisorLink
from holdfast.scope import TaskScope
from holdfast.settings import Settings

LOOK_AGAIN = 1.0
"""Seconds after which a run is looked at in any case: somebody may have cleared a task of it."""

SCHEDULER = ApiWriter("scheduler")

log = logging.getLogger("holdfast.scheduler")


@dataclass
class ActiveRun:
    """A run that this process holds."""

    run: Run
    dag: DagSpec
    tasks: Sequence[TaskInstance] = ()
    """As they were when last looked at."""
    ordered: dict[TaskScope, TaskInstance] = field(default_factory=dict)
    """Attempts that the supervisor was told to start and has not told the end of, each with its
    task instance as it was before."""
    left: dict[TaskScope, TaskInstance | None] = field(default_factory=dict)
    """Attempts that have lost their supervisor, likewise: it may not have called their callbacks.
    None where it was a supervisor of the process before this one."""
    look_at: float = 0.0
    """When to look again, by the monotonic clock."""
    held: bool = False
    """Whether no task is to be started, and nothing called back: the DAG's file is broken or
    away."""

    @property
    def key(self) -> tuple[str, str]:
        return self.run.dag_id, self.run.run_id


class Conductor:
    """The runs that this process holds, and its supervisor. `close` ends both."""

    def __init__(self, settings: Settings) -> None:
        Offloading.of(settings).check()
        self._supervisor = SupervisorLink(settings)
        # While the supervisor starts: loading the database library takes as long.
        from holdfast.connection import open_store

        self.store = open_store(settings, retry_window=settings.core.retry_window)
        self.runs: dict[tuple[str, str], ActiveRun] = {}
        self._importing: Counter[str] = Counter()
        """Files, with how often the supervisor has died while it imported them."""
        self._parsed: list[FileParsed] = []
        self._calls: dict[int, CallBack] = {}
        """Callbacks that were ordered and have not ended."""
        self._numbers = count(1)
        self._deaths: Counter[int] = Counter()
        """How often the supervisor has died during each of them."""
        self._spark = False
        self._not_begun: Counter[TaskScope] = Counter()
        self._renewed = time.monotonic()

    def parse(self, file: str) -> None:
        """Have a file imported; `parsed` will tell what it holds, or what is wrong with it."""
        if (shown := printable(file)) != file:
            error = InvalidDag(
                f"the path {shown} has control characters, or bytes that are not UTF-8",
                hint="rename the file or directory",
            )
            self._parsed.append(FileParsed(file, Parsed(error=str(error))))
            return
        self._importing[file] = 0
        self._supervisor.order(ParseFile(file))

    def parsed(self) -> list[FileParsed]:
        """What came of imports since the last call."""
        parsed, self._parsed = self._parsed, []
        return parsed

    @property
    def calls_back(self) -> bool:
        """Whether callbacks are still to be called, or have not returned."""
        return bool(self._calls)

    def warm_spark(self) -> None:
        """Have Spark ready for tasks to come."""
        self._spark = True
        self._supervisor.order(WarmSpark())

    def adopt(self, run: Run, dag: DagSpec, most_running: int | None = None) -> ActiveRun:
        """Hold a run from now on. Conflict where another process does, and lives, or where it
        would begin and so many of its DAG run already."""
        dead = run.owner if run.owner is not None and has_ended(run.owner) else None
        claimed = self.store.execute(
            r.ClaimRun(
                dag_id=run.dag_id,
                run_id=run.run_id,
                process=this_process(),
                lease=LEASE,
                dead=dead,
                most_running=most_running,
            )
        )
        active = self.runs[run.dag_id, run.run_id] = ActiveRun(claimed, dag)
        self._interrupt(active, "the process that carried out the run ended")
        if any(task.spark for task in dag.tasks):
            self.warm_spark()
        return active

    def turn(self, timeout: float) -> None:
        """Wait for something to happen, for so long at most, and do what is to be done then."""
        for notice in self._supervisor.notices(timeout):
            self._take(notice)
        now = time.monotonic()
        if now > self._renewed + HEARTBEAT:
            self._renewed = now
            self._renew()
        for active in list(self.runs.values()):
            if now >= active.look_at:
                self._advance(active)

    def release(self) -> None:
        """Let go of all runs, so that another process can go on with them at once."""
        for dag_id, run_id in self.runs:
            try:
                self.store.execute(r.ReleaseRun(dag_id, run_id, this_process()))
            except HoldfastError as error:
                log.warning("run %s of %s was not released: %s", run_id, dag_id, error.message)
        self.runs.clear()

    def close(self) -> None:
        """Interrupt what runs, and let go of it."""
        self._supervisor.stop()
        self.release()
        self.store.close()

    def abandon(self) -> None:
        """End at once, without a word to the tasks."""
        self._supervisor.kill()

    def _take(self, notice: Notice | None) -> None:
        if notice is None:
            self._begin_again()
        elif isinstance(notice, FileParsed):
            self._importing.pop(notice.file, None)
            self._parsed.append(notice)
        elif isinstance(notice, Ended):
            if notice.error:
                log.warning("%s: %s", notice.scope, notice.error)
            self._count_start(notice)
            scope = notice.scope
            if (concerned := self.runs.get((scope.dag_id, scope.run_id))) is not None:
                concerned.ordered.pop(scope, None)
                concerned.look_at = 0.0
        elif isinstance(notice, CalledBack):
            self._calls.pop(notice.number, None)
            self._deaths.pop(notice.number, None)

    def _count_start(self, notice: Ended) -> None:
        """Where no process can be had, again and again, there is no use in going on."""
        if notice.begun:
            self._not_begun.pop(notice.scope, None)
            return
        self._not_begun[notice.scope] += 1
        if self._not_begun[notice.scope] >= MOST_INTERRUPTIONS:
            raise RunnerFailed(
                f"{notice.scope} could not be started, {MOST_INTERRUPTIONS} times in a row: "
                f"{notice.error}",
                hint="the launcher's own messages are above",
            )

    def _begin_again(self) -> None:
        """There is a new supervisor: what the one before was doing is done anew."""
        for active in self.runs.values():
            active.left |= active.ordered
            active.ordered.clear()
            active.look_at = 0.0
        for file in list(self._importing):
            self._import_again(file)
        for number in list(self._calls):
            self._call_again(number)
        if self._spark:
            self.warm_spark()
        for active in list(self.runs.values()):
            try:
                self._interrupt(active, "the supervisor died")
            except (StaleAttempt, NotFound) as error:
                log.warning("%s", error.message)
                del self.runs[active.key]

    def _import_again(self, file: str) -> None:
        """Perhaps the file is what kills supervisors: then it is broken, and the others go on."""
        self._importing[file] += 1
        if self._importing[file] < MOST_INTERRUPTIONS:
            self._supervisor.order(ParseFile(file))
            return
        why = f"the supervisor died, {MOST_INTERRUPTIONS} times in a row"
        error = f"{file} could not be imported: {why}"
        self._take(FileParsed(file, Parsed(error=error)))

    def _call_again(self, number: int) -> None:
        """Callbacks, too, may be what kills supervisors."""
        self._deaths[number] += 1
        if self._deaths[number] < MOST_INTERRUPTIONS:
            self._supervisor.order(self._calls[number])
            return
        call = self._calls[number]
        log.warning(
            "callbacks of %s are not called again: the supervisor died, %s times in a row",
            call.attempt.instance.scope if call.attempt else f"{call.run.dag_id}/{call.run.run_id}",
            MOST_INTERRUPTIONS,
        )
        self._take(CalledBack(number))

    def _interrupt(self, active: ActiveRun, reason: str, expired: bool = False) -> None:
        """Nobody supervises these attempts of the run any more: end them, and what they left."""
        dag_id, run_id = active.key
        interrupted = self.store.execute(
            r.InterruptAttempts(
                dag_id=dag_id,
                run_id=run_id,
                process=this_process(),
                limit=MOST_INTERRUPTIONS,
                reason=reason,
                expired=expired,
            )
        )
        for attempt in interrupted:
            if attempt.worker is not None:
                kill_group(attempt.worker)
            before = active.ordered.pop(attempt.scope, None)
            active.left.setdefault(attempt.scope, before)

    def _renew(self) -> None:
        if not self.runs:
            return
        heartbeat = r.Heartbeat(process=this_process(), lease=LEASE, runs=tuple(self.runs))
        for key in self.store.execute(heartbeat).runs:
            log.warning("run %s of %s is carried out by another process now", key[1], key[0])
            self.runs.pop(key, None)

    def _advance(self, active: ActiveRun) -> None:
        """Bring a run as far as it can go now."""
        try:
            self._go_on(active)
        except (StaleAttempt, NotFound) as error:
            log.warning("%s", error.message)
            self.runs.pop(active.key, None)
        except Conflict as error:
            log.info("%s", error.message)
            active.look_at = time.monotonic() + LOOK_AGAIN

    def _go_on(self, active: ActiveRun) -> None:
        decision = self._settle(active)
        instances = {(one.scope.task_id, one.scope.map_index): one for one in active.tasks}
        for start in () if active.held else decision.start:
            self._order(active, instances[start])
        active.look_at = time.monotonic() + LOOK_AGAIN
        if decision.wake_at is not None:
            wait = (decision.wake_at - datetime.now(UTC)).total_seconds()
            active.look_at = min(active.look_at, time.monotonic() + max(wait, 0.0))
        calls = active.dag.callbacks or active.left
        if decision.ended is not None and not (active.held and calls):
            self._finish(active, decision.ended)

    def _settle(self, active: ActiveRun) -> Decision:
        """Make changes until there are none to make; what remains is to start tasks, or the end."""
        dag_id, run_id = active.key

        def results(task_id: str, key: str) -> Sequence[tuple[int, str]]:
            return self.store.execute(r.GetResults(dag_id, run_id, task_id, key))

        made: Decision | None = None
        while True:
            tasks = self.store.execute(r.ListTaskInstances(dag_id=dag_id, run_id=run_id))
            active.tasks = [
                msgspec.structs.replace(one, state=TaskState.RUNNING)
                if one.scope in active.ordered
                else one
                for one in tasks
            ]
            self._end_unsupervised(active)
            if not active.held:
                self._call_back_for_left(active)
            if self._end_overdue(active):
                continue
            decision = decide(active.dag, active.tasks, datetime.now(UTC), results)
            if not decision.changes or decision == made:
                return decision
            made = decision
            changes = r.ChangeTasks(dag_id, run_id, this_process(), decision.changes)
            self.store.execute(changes)

    def _end_unsupervised(self, active: ActiveRun) -> None:
        """Attempts that a supervisor of the process before this one began, and nobody has now."""
        for one in active.tasks:
            if one.state is TaskState.RUNNING and one.scope not in active.ordered:
                self._interrupt(active, "nobody supervised it any more", expired=True)
                return

    def _call_back_for_left(self, active: ActiveRun) -> None:
        """Call the callbacks of attempts that have ended and whose supervisor may not have."""
        for one in active.tasks:
            if one.scope not in active.left or one.state is TaskState.RUNNING:
                continue
            before = active.left.pop(one.scope) or msgspec.structs.replace(
                one, attempt=one.attempt - 1
            )
            kind = CALLBACKS.get(one.state) if one.state else None
            task = active.dag.task(one.scope.task_id)
            if task is not None and kind in task.callbacks and one.attempt > before.attempt:
                attempt = RunTask(active.dag.file, active.run, task, before)
                self._call_back(active, kind, one.error, attempt)

    def _call_back(
        self, active: ActiveRun, kind: CallbackKind, error: str, attempt: RunTask | None = None
    ) -> None:
        number = next(self._numbers)
        call = CallBack(number, active.dag.file, active.run, kind, error, attempt)
        self._calls[number] = call
        self._supervisor.order(call)

    def _end_overdue(self, active: ActiveRun) -> bool:
        """Whether the run has taken too long, and something had to be ended for that."""
        limit, started = active.dag.run_timeout, active.run.started_at
        if limit is None or started is None or datetime.now(UTC) < started + limit:
            return False
        unfinished = [one for one in active.tasks if one.state is None or not one.state.ended]
        for one in unfinished:
            reason = f"the run took longer than its dagrun_timeout of {limit}"
            failed = TaskState.FAILED
            self.store.execute(
                r.MarkTask(scope=one.scope, state=failed, writer=SCHEDULER, reason=reason)
            )
            active.ordered.pop(one.scope, None)
        return bool(unfinished)

    def _order(self, active: ActiveRun, instance: TaskInstance) -> None:
        task = active.dag.task(instance.scope.task_id)
        assert task is not None
        active.ordered[instance.scope] = instance
        self._supervisor.order(RunTask(active.dag.file, active.run, task, instance))

    def _finish(self, active: ActiveRun, state: RunState) -> None:
        dag_id, run_id = active.key
        waiting = sum(one.state is not None and not one.state.ended for one in active.tasks)
        self.store.execute(r.FinishRun(dag_id, run_id, this_process(), state, waiting))
        active.run = self.store.execute(r.GetRun(dag_id, run_id))
        del self.runs[active.key]
        kind: CallbackKind = "success" if state is RunState.SUCCESS else "failure"
        if kind in active.dag.callbacks:
            failed = [one for one in active.tasks if one.state is TaskState.FAILED]
            error = f"{failed[0].scope}: {failed[0].error}" if failed else ""
            self._call_back(active, kind, error)
