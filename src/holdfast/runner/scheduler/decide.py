"""Decision on the next steps of a run, as a function of its DAG and the states of its tasks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from math import prod
from typing import Any, Final, Literal, TypeAlias

import msgspec

from holdfast.commands import TaskChange
from holdfast.model.dag import Axis, DagSpec, LiteralAxis, ResultAxis, TaskSpec
from holdfast.model.run import RETURN_VALUE, RunState, TaskInstance, TaskState, TriggerRule

Results: TypeAlias = Callable[[str, str], Sequence[tuple[int, str]]]
"""Returns the results of a finished task under a key, as (map index, JSON)."""
Start: TypeAlias = tuple[str, int]
"""A task id and map index."""

UNMAPPED: Final = -1
MOST_INSTANCES: Final = 100_000
FAILURES: Final = frozenset((TaskState.FAILED, TaskState.UPSTREAM_FAILED))
OPEN: Final = frozenset((TaskState.SCHEDULED, TaskState.UP_FOR_RETRY))
ENDED: Final = frozenset(state for state in TaskState if state.ended)


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """The next steps of a run, in this order: change, start, and end or check again."""

    changes: tuple[TaskChange, ...] = ()
    start: tuple[Start, ...] = ()
    """The instances that may start, in the order of the DAG; limits decide how many do."""
    ended: RunState | None = None
    """The final state of the run once the changes are made; None while something is left to do."""
    wake_at: datetime | None = None
    """The earliest time at which a task that waits for a time may start."""


def decide(
    dag: DagSpec, tasks: Sequence[TaskInstance], now: datetime, results: Results
) -> Decision:
    """Decide on the next steps of a run with these known task instances.

    `results` is called when a mapped task is expanded: when it is about to start, over tasks that
    have ended since any of its instances last started.
    """
    known: defaultdict[str, list[TaskInstance]] = defaultdict(list)
    for instance in tasks:
        known[instance.scope.task_id].append(instance)
    progress = _Progress(dag, tasks, now, results)
    for task in dag.tasks:
        progress.settle(task, known.pop(task.task_id, ()))
    for gone in known.values():
        progress.remove(gone)
    return progress.decision()


class _Task:
    """The states of a task's instances by map index, without removed ones."""

    def __init__(self, instances: Iterable[TaskInstance]) -> None:
        self.instances = {one.scope.map_index: one for one in instances}
        self.states: dict[int, TaskState] = {
            index: one.state
            for index, one in self.instances.items()
            if one.state is not None and one.state is not TaskState.REMOVED
        }

    @property
    def expanded(self) -> bool:
        return bool(self.states) and UNMAPPED not in self.states

    @property
    def open(self) -> bool:
        """True while something may still be decided about the task."""
        return not self.states or not OPEN.isdisjoint(self.states.values())

    def started_since(self, time: datetime | None) -> bool:
        return time is not None and any(
            one.started_at is not None and one.started_at >= time for one in self.instances.values()
        )

    @property
    def ended_at(self) -> datetime | None:
        """The time at which the last of its instances ended; None if not known."""
        ends = [self.instances[i].ended_at for i in self.states if i in self.instances]
        times = [end for end in ends if end is not None]
        return max(times) if times and len(times) == len(ends) else None


class _Progress:
    """The decisions so far. Tasks are settled after their upstream tasks."""

    def __init__(
        self, dag: DagSpec, tasks: Sequence[TaskInstance], now: datetime, results: Results
    ) -> None:
        self.now = now
        self.results = results
        self.running = Counter(one.scope.task_id for one in tasks if one.state is TaskState.RUNNING)
        self.is_full = self.running.total() >= dag.max_active_tasks
        self.tasks: dict[str, _Task] = {}
        self.counts: dict[str, Counter[TaskState]] = {}
        self.sums: dict[tuple[str, ...], Counter[TaskState]] = {}
        self.leaves = {task.task_id for task in dag.tasks}
        for task in dag.tasks:
            self.leaves.difference_update(task.upstream)
        self.changes: list[TaskChange] = []
        self.start: list[Start] = []
        self.wake_at: datetime | None = None

    def settle(self, spec: TaskSpec, instances: Iterable[TaskInstance]) -> None:
        """Decide about a task whose upstream tasks are all settled."""
        task = self.tasks[spec.task_id] = _Task(instances)
        if task.open:
            upstream = self.upstream(spec)
            verdict = judge(spec.trigger_rule, upstream) if spec.upstream else "go"
            if spec.mapped is None:
                self.fit_to(spec, task, {UNMAPPED})
            else:
                verdict = self.expand(spec, spec.mapped.axes, task, verdict)
            if isinstance(verdict, TaskState):
                reason = f"trigger rule {spec.trigger_rule}, upstream: {_in_words(upstream)}"
                self.close(spec, task, verdict, reason)
            elif verdict == "go":
                self.launch(spec, task)
        self.counts[spec.task_id] = Counter(task.states.values())

    def upstream(self, spec: TaskSpec) -> Counter[TaskState]:
        """Count the upstream instances by state, once for tasks with the same upstream."""
        if spec.upstream not in self.sums:
            self.sums[spec.upstream] = Counter()
            for one in spec.upstream:
                self.sums[spec.upstream].update(self.counts.get(one, ()))
        return self.sums[spec.upstream]

    def expand(
        self, spec: TaskSpec, axes: Sequence[Axis], task: _Task, verdict: Verdict
    ) -> Verdict:
        """Fit the instances of a mapped task to what it maps over, once known; return the verdict.

        Until then the task has a single instance, which stands for all of them.
        """
        sources = [axis.task_id for axis in axes if isinstance(axis, ResultAxis)]
        if verdict == "go":
            verdict = self.await_sources(sources)
        if isinstance(verdict, TaskState) or (sources and verdict == "wait"):
            if not task.states:
                self.fit_to(spec, task, {UNMAPPED})
            return verdict
        if task.expanded and sources and (self.is_full or self.is_current(task, sources)):
            return verdict
        try:
            length = self.length(axes)
        except _NotMappable as error:
            self.fit_to(spec, task, {UNMAPPED})
            self.close(spec, task, TaskState.FAILED, str(error))
            return verdict
        self.fit_to(spec, task, range(length) if length else {UNMAPPED})
        if not length and verdict == "go":
            self.close(spec, task, TaskState.SKIPPED, "there is nothing to map over")
        return verdict

    def await_sources(self, sources: Sequence[str]) -> Verdict:
        """Return the verdict on whether the tasks whose results are mapped over have returned them.

        For a mapped source, the results of its instances count, however many there are.
        """
        states = Counter[TaskState]()
        for source in sources:
            task = self.tasks.get(source)
            if task is not None and task.expanded:
                if not ENDED.issuperset(task.states.values()):
                    return "wait"
            else:
                states.update(self.counts.get(source, ()))
        return judge(TriggerRule.ALL_SUCCESS, states)

    def is_current(self, task: _Task, sources: Sequence[str]) -> bool:
        """Return whether the task was expanded over the current results of its sources.

        An instance that started after the sources ended shows that the task was expanded since.
        """
        ends = [self.tasks[source].ended_at for source in sources if source in self.tasks]
        return all(task.started_since(end) for end in ends)

    def length(self, axes: Sequence[Axis]) -> int:
        length = prod(self.length_of(axis) for axis in axes)
        if length > MOST_INSTANCES:
            raise _NotMappable(
                f"cannot map over {length:,} items: the maximum is {MOST_INSTANCES:,}"
            )
        return length

    def length_of(self, axis: Axis) -> int:
        if isinstance(axis, LiteralAxis):
            return axis.length
        # A value pushed under the first key takes precedence over that part of the return value.
        by_key = bool(axis.path) and isinstance(axis.path[0], str)
        pushed = dict(self.results(axis.task_id, str(axis.path[0]))) if by_key else {}
        inside = ResultAxis(axis.task_id, axis.path[1:])
        found = {
            at: (inside, pushed[at]) if at in pushed else (axis, text)
            for at, text in self.results(axis.task_id, RETURN_VALUE)
        }
        source = self.tasks.get(axis.task_id)
        if source is not None and source.expanded:
            return sum(
                1 for one, text in found.values() if not one.path or _leads_on(text, one.path)
            )
        found |= {at: (inside, text) for at, text in pushed.items()}
        if not found:
            raise _NotMappable(
                f"cannot map over the result of `{axis.task_id}`: the task returned none"
            )
        return _length(*next(iter(found.values())))

    def fit_to(self, spec: TaskSpec, task: _Task, wanted: Iterable[int]) -> None:
        """Add the missing ones of the `wanted` instances, and remove others that are still open."""
        wanted = dict.fromkeys(wanted)
        for index, state in list(task.states.items()):
            if index not in wanted and state in OPEN:
                self.changes.append(TaskChange(spec.task_id, index, TaskState.REMOVED))
                del task.states[index]
        for index in wanted:
            if index not in task.states:
                self.change(spec, task, index, TaskState.SCHEDULED)

    def close(self, spec: TaskSpec, task: _Task, state: TaskState, reason: str) -> None:
        """End the instances that are still open in the given state."""
        for index, before in task.states.items():
            if before in OPEN:
                self.change(spec, task, index, state, reason)

    def change(
        self, spec: TaskSpec, task: _Task, index: int, state: TaskState, reason: str = ""
    ) -> None:
        task.states[index] = state
        self.changes.append(TaskChange(spec.task_id, index, state, reason))

    def launch(self, spec: TaskSpec, task: _Task) -> None:
        """Start the instances that may start now, and note when the others may."""
        for index in sorted(task.states):
            if task.states[index] not in OPEN:
                continue
            instance = task.instances.get(index)
            ready_at = None if instance is None else instance.ready_at
            if ready_at is not None and ready_at > self.now:
                self.wake_at = min(self.wake_at or ready_at, ready_at)
            else:
                self.start.append((spec.task_id, index))

    def remove(self, instances: Iterable[TaskInstance]) -> None:
        """Remove open instances of a task that the DAG no longer has."""
        for one in instances:
            if one.state in OPEN:
                scope = one.scope
                self.changes.append(TaskChange(scope.task_id, scope.map_index, TaskState.REMOVED))

    def decision(self) -> Decision:
        return Decision(
            changes=_merged(self.changes),
            start=tuple(self.start),
            ended=self.end(),
            wake_at=self.wake_at,
        )

    def end(self) -> RunState | None:
        """Return the final state of the run; None while it goes on.

        A run in which tasks wait for something that cannot happen any more has failed.
        """
        if self.start or self.wake_at is not None or self.running:
            return None
        stuck = any(not ENDED.issuperset(counts) for counts in self.counts.values())
        failed = any(not FAILURES.isdisjoint(self.counts[leaf]) for leaf in self.leaves)
        return RunState.FAILED if stuck or failed else RunState.SUCCESS


Verdict: TypeAlias = TaskState | Literal["go", "wait"]


def judge(rule: TriggerRule, upstream: Mapping[TaskState, int]) -> Verdict:
    """Apply a trigger rule to the number of upstream instances in each state.

    Return "go" if the task may start, "wait" if it has to wait, or the state in which it ends
    because it never will start.
    """
    rules = TriggerRule
    success = upstream.get(TaskState.SUCCESS, 0)
    skipped = upstream.get(TaskState.SKIPPED, 0)
    upstream_failed = upstream.get(TaskState.UPSTREAM_FAILED, 0)
    failed = upstream.get(TaskState.FAILED, 0)
    failures = failed + upstream_failed
    total = sum(upstream.values())
    done = success + skipped + failures == total
    fails = rules.ALL_SUCCESS, rules.NONE_FAILED, rules.NONE_FAILED_MIN_ONE_SUCCESS
    never_skipped = rules.ALL_SUCCESS, rules.NONE_SKIPPED, rules.ALL_DONE_MIN_ONE_SUCCESS

    if rule is rules.ALWAYS:
        return "go"
    if rule in fails and failures:
        return TaskState.UPSTREAM_FAILED
    if rule in never_skipped and skipped:
        return TaskState.SKIPPED
    if rule is rules.ALL_FAILED and (success or skipped):
        return TaskState.SKIPPED
    if rule is rules.ALL_SKIPPED and (success or failures):
        return TaskState.SKIPPED
    enough = {
        rules.ONE_SUCCESS: success,
        rules.ONE_FAILED: failures,
        rules.ONE_DONE: success + failed,
    }
    if enough.get(rule):
        return "go"
    if not done:
        return "wait"
    if rule in (rules.ONE_FAILED, rules.ONE_DONE):
        return TaskState.SKIPPED
    at_least_one = (
        rules.ONE_SUCCESS,
        rules.NONE_FAILED_MIN_ONE_SUCCESS,
        rules.ALL_DONE_MIN_ONE_SUCCESS,
    )
    if rule in at_least_one and not success:
        return TaskState.SKIPPED if skipped == total else TaskState.UPSTREAM_FAILED
    return "go"


class _NotMappable(Exception):
    """A task is mapped over a value without a length, or over too many values."""


def _length(axis: ResultAxis, text: str) -> int:
    where = f"the result of `{axis.task_id}`"
    try:
        value = _follow(text, axis.path)
    except (LookupError, TypeError):
        what = f"it has no {_path_text(axis.path)}"
        raise _NotMappable(f"cannot map over {where}: {what}") from None
    if not isinstance(value, list | dict):
        kind = _KINDS[type(value)]
        where += f" at {_path_text(axis.path)}" if axis.path else ""
        raise _NotMappable(f"cannot map over {where}: it is {kind}, not a list or mapping")
    return len(value)


_KINDS: Final[Mapping[type[Any], str]] = {
    str: "text",
    int: "a number",
    float: "a number",
    bool: "true or false",
    type(None): "null",
}


def _follow(text: str, path: Sequence[str | int]) -> Any:
    value = msgspec.json.decode(text)
    for step in path:
        value = value[step]
    return value


def _leads_on(text: str, path: Sequence[str | int]) -> bool:
    try:
        _follow(text, path)
    except (LookupError, TypeError):
        return False
    return True


def _path_text(path: Sequence[str | int]) -> str:
    return "".join(f"[{step!r}]" for step in path)


def _in_words(states: Mapping[TaskState, int]) -> str:
    return ", ".join(f"{count} {state}" for state, count in sorted(states.items())) or "none"


def _merged(changes: Iterable[TaskChange]) -> tuple[TaskChange, ...]:
    """Return one change for each instance, the last one decided."""
    return tuple({(one.task_id, one.map_index): one for one in changes}.values())
