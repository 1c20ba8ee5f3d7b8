"""Decisions about the tasks of a run: trigger rules, limits, retries and mapping."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from holdfast.commands import TaskChange
from holdfast.model.dag import Axis, DagSpec, LiteralAxis, MappedSpec, ResultAxis, TaskSpec
from holdfast.model.run import RunState, TaskInstance, TaskState, TriggerRule
from holdfast.model.scope import TaskScope
from holdfast.runner.scheduler.decide import Decision, decide

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
MINUTE = timedelta(minutes=1)

SCHEDULED, RUNNING, RETRY = TaskState.SCHEDULED, TaskState.RUNNING, TaskState.UP_FOR_RETRY
SUCCESS, FAILED, SKIPPED = TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED
UPSTREAM_FAILED, REMOVED = TaskState.UPSTREAM_FAILED, TaskState.REMOVED


def task(task_id: str, *upstream: str, over: Sequence[Axis] | None = None, **more: Any) -> TaskSpec:
    mapped = None if over is None else MappedSpec(tuple(over))
    return TaskSpec(task_id=task_id, operator="task", upstream=upstream, mapped=mapped, **more)


def one(task_id: str, state: TaskState | None, index: int = -1, **more: Any) -> TaskInstance:
    facts: dict[str, Any] = {
        "attempt": 0,
        "failures": 0,
        "interruptions": 0,
        "ready_at": None,
        "started_at": None,
        "ended_at": NOW - MINUTE if state is not None and state.ended else None,
        "error": "",
    }
    return TaskInstance(scope=TaskScope("etl", "r1", task_id, index), state=state, **facts | more)


class Run:
    """Run of a DAG, and the results of its tasks."""

    def __init__(self, *tasks: TaskSpec, max_active_tasks: int = 16) -> None:
        self.dag = DagSpec(
            dag_id="etl", file="etl.py", tasks=tasks, max_active_tasks=max_active_tasks
        )
        self.results: dict[str, list[tuple[int, str]]] = {}
        self.pushed: dict[str, list[tuple[int, str]]] = {}
        self.asked: list[str] = []

    def left(self, task_id: str, *values: Any, index: int = -1) -> None:
        texts = [json.dumps(value) for value in values]
        self.results[task_id] = list(enumerate(texts, start=index))

    def decide(self, *instances: TaskInstance, now: datetime = NOW) -> Decision:
        def results(task_id: str, key: str) -> list[tuple[int, str]]:
            self.asked.append(task_id)
            return (self.results if key == "return_value" else self.pushed).get(task_id, [])

        return decide(self.dag, instances, now, results)


def states(decision: Decision) -> dict[tuple[str, int], TaskState]:
    return {(change.task_id, change.map_index): change.state for change in decision.changes}


def test_all_tasks_are_created_at_the_start_and_those_without_upstream_start():
    run = Run(task("a"), task("b", "a"), task("c"))

    decision = run.decide()

    assert decision.changes == tuple(TaskChange(name, -1, SCHEDULED) for name in "abc")
    assert decision.start == (("a", -1), ("c", -1))
    assert decision.ended is None


def test_a_task_starts_when_the_one_upstream_has_succeeded():
    run = Run(task("a"), task("b", "a"))

    assert run.decide(one("a", RUNNING), one("b", SCHEDULED)) == Decision()
    assert run.decide(one("a", SUCCESS), one("b", SCHEDULED)).start == (("b", -1),)


def test_a_failure_propagates_downstream_in_one_decision():
    run = Run(task("a"), task("b", "a"), task("c", "b"))

    decision = run.decide(one("a", FAILED), one("b", SCHEDULED), one("c", SCHEDULED))

    assert states(decision) == {("b", -1): UPSTREAM_FAILED, ("c", -1): UPSTREAM_FAILED}
    assert decision.changes[0].error == "trigger rule all_success, upstream: 1 failed"
    assert decision.ended is RunState.FAILED


def test_a_skip_propagates_downstream_and_the_run_succeeds():
    run = Run(task("a"), task("b", "a"), task("c", "b"))

    decision = run.decide(one("a", SKIPPED), one("b", SCHEDULED), one("c", SCHEDULED))

    assert states(decision) == {("b", -1): SKIPPED, ("c", -1): SKIPPED}
    assert decision.ended is RunState.SUCCESS


GO, WAIT = "go", "wait"
RULES: list[tuple[TriggerRule, list[TaskState], TaskState | str]] = [
    (TriggerRule.ALL_SUCCESS, [SUCCESS, SUCCESS], GO),
    (TriggerRule.ALL_SUCCESS, [SUCCESS, RUNNING], WAIT),
    (TriggerRule.ALL_SUCCESS, [SUCCESS, RETRY], WAIT),
    (TriggerRule.ALL_SUCCESS, [RUNNING, FAILED], UPSTREAM_FAILED),
    (TriggerRule.ALL_SUCCESS, [RUNNING, SKIPPED], SKIPPED),
    (TriggerRule.ALL_SUCCESS, [SKIPPED, UPSTREAM_FAILED], UPSTREAM_FAILED),
    (TriggerRule.ALL_SUCCESS, [SUCCESS, REMOVED], GO),
    (TriggerRule.ALL_FAILED, [FAILED, UPSTREAM_FAILED], GO),
    (TriggerRule.ALL_FAILED, [FAILED, RUNNING], WAIT),
    (TriggerRule.ALL_FAILED, [RUNNING, SUCCESS], SKIPPED),
    (TriggerRule.ALL_FAILED, [FAILED, SKIPPED], SKIPPED),
    (TriggerRule.ALL_DONE, [FAILED, SKIPPED, SUCCESS, UPSTREAM_FAILED], GO),
    (TriggerRule.ALL_DONE, [FAILED, RUNNING], WAIT),
    (TriggerRule.ALL_DONE_MIN_ONE_SUCCESS, [FAILED, SUCCESS], GO),
    (TriggerRule.ALL_DONE_MIN_ONE_SUCCESS, [SUCCESS, RUNNING], WAIT),
    (TriggerRule.ALL_DONE_MIN_ONE_SUCCESS, [SUCCESS, SKIPPED], SKIPPED),
    (TriggerRule.ALL_DONE_MIN_ONE_SUCCESS, [FAILED, FAILED], UPSTREAM_FAILED),
    (TriggerRule.ALL_SKIPPED, [SKIPPED, SKIPPED], GO),
    (TriggerRule.ALL_SKIPPED, [SKIPPED, RUNNING], WAIT),
    (TriggerRule.ALL_SKIPPED, [RUNNING, SUCCESS], SKIPPED),
    (TriggerRule.ALL_SKIPPED, [SKIPPED, FAILED], SKIPPED),
    (TriggerRule.ALWAYS, [SCHEDULED, RUNNING], GO),
    (TriggerRule.NONE_FAILED, [SUCCESS, SKIPPED], GO),
    (TriggerRule.NONE_FAILED, [SKIPPED, SKIPPED], GO),
    (TriggerRule.NONE_FAILED, [RUNNING, FAILED], UPSTREAM_FAILED),
    (TriggerRule.NONE_FAILED, [SKIPPED, RUNNING], WAIT),
    (TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS, [SUCCESS, SKIPPED], GO),
    (TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS, [SKIPPED, SKIPPED], SKIPPED),
    (TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS, [SUCCESS, RUNNING], WAIT),
    (TriggerRule.NONE_FAILED_MIN_ONE_SUCCESS, [SUCCESS, FAILED], UPSTREAM_FAILED),
    (TriggerRule.NONE_SKIPPED, [SUCCESS, FAILED], GO),
    (TriggerRule.NONE_SKIPPED, [SUCCESS, RUNNING], WAIT),
    (TriggerRule.NONE_SKIPPED, [RUNNING, SKIPPED], SKIPPED),
    (TriggerRule.ONE_DONE, [RUNNING, FAILED], GO),
    (TriggerRule.ONE_DONE, [RUNNING, SUCCESS], GO),
    (TriggerRule.ONE_DONE, [RUNNING, SKIPPED], WAIT),
    (TriggerRule.ONE_DONE, [UPSTREAM_FAILED, SKIPPED], SKIPPED),
    (TriggerRule.ONE_FAILED, [RUNNING, FAILED], GO),
    (TriggerRule.ONE_FAILED, [RUNNING, UPSTREAM_FAILED], GO),
    (TriggerRule.ONE_FAILED, [RUNNING, SUCCESS], WAIT),
    (TriggerRule.ONE_FAILED, [SKIPPED, SUCCESS], SKIPPED),
    (TriggerRule.ONE_SUCCESS, [RUNNING, SUCCESS], GO),
    (TriggerRule.ONE_SUCCESS, [RUNNING, FAILED], WAIT),
    (TriggerRule.ONE_SUCCESS, [SKIPPED, SKIPPED], SKIPPED),
    (TriggerRule.ONE_SUCCESS, [SKIPPED, FAILED], UPSTREAM_FAILED),
]


def described(value: object) -> str:
    return "-".join(value) if isinstance(value, list) else str(value)


def expect(decision: Decision, of: str, verdict: TaskState | str) -> None:
    assert ((of, -1) in decision.start) is (verdict == GO)
    assert states(decision).get((of, -1)) == (verdict if verdict in set(TaskState) else None)


# A removed index is restored as long as a literal has it.
@pytest.mark.parametrize(
    ("rule", "upstream", "verdict"), [row for row in RULES if REMOVED not in row[1]], ids=described
)
def test_a_trigger_rule_applies_to_map_indices(rule, upstream, verdict):
    run = Run(
        task("up", over=[LiteralAxis(len(upstream))]),
        task("down", "up", trigger_rule=rule),
        max_active_tasks=99,
    )
    instances = [one("up", state, index) for index, state in enumerate(upstream)]

    decision = run.decide(one("up", REMOVED), *instances, one("down", SCHEDULED))

    expect(decision, "down", verdict)


@pytest.mark.parametrize(("rule", "upstream", "verdict"), RULES, ids=described)
def test_a_trigger_rule_applies_to_tasks(rule, upstream, verdict):
    names = [f"up{index}" for index in range(len(upstream))]
    ups = [task(name) for name in names if upstream[int(name[2:])] is not REMOVED]
    run = Run(*ups, task("down", *names, trigger_rule=rule), max_active_tasks=99)
    instances = [one(name, state) for name, state in zip(names, upstream, strict=True)]

    decision = run.decide(*instances, one("down", SCHEDULED))

    expect(decision, "down", verdict)


def test_every_trigger_rule_is_tested():
    assert {rule for rule, _, _ in RULES} == set(TriggerRule)


def test_a_retry_waits_for_its_time():
    run = Run(task("a"), task("b"))
    soon = one("a", RETRY, ready_at=NOW + MINUTE)
    later = one("b", RETRY, ready_at=NOW + 2 * MINUTE)

    waiting = run.decide(soon, later)
    after = run.decide(soon, later, now=NOW + MINUTE)

    assert waiting == Decision(wake_at=NOW + MINUTE)
    assert after == Decision(start=(("a", -1),), wake_at=NOW + 2 * MINUTE)


def test_a_task_that_the_dag_no_longer_has_is_removed_unless_it_runs_or_has_ended():
    run = Run(task("a"))

    decision = run.decide(
        one("a", SUCCESS), one("x", SCHEDULED), one("y", SUCCESS), one("z", RUNNING)
    )

    assert states(decision) == {("x", -1): REMOVED}
    assert decision.ended is None, "z still runs"


def test_a_removed_task_that_the_dag_has_again_is_scheduled():
    decision = Run(task("a")).decide(one("a", REMOVED))

    assert states(decision) == {("a", -1): SCHEDULED}
    assert decision.start == (("a", -1),)


def test_a_registered_task_without_state_is_scheduled():
    decision = Run(task("a")).decide(one("a", None))

    assert states(decision) == {("a", -1): SCHEDULED}
    assert decision.start == (("a", -1),)


def test_a_dag_without_tasks_succeeds():
    assert Run().decide().ended is RunState.SUCCESS


def test_a_failure_handled_by_a_later_task_does_not_fail_the_run():
    run = Run(task("a"), task("b", "a", trigger_rule=TriggerRule.ALL_DONE))

    assert run.decide(one("a", FAILED), one("b", SUCCESS)).ended is RunState.SUCCESS


def test_a_failed_leaf_fails_the_run_once_everything_has_ended():
    run = Run(task("a"), task("b"))

    assert run.decide(one("a", FAILED), one("b", RUNNING)).ended is None
    assert run.decide(one("a", FAILED), one("b", SUCCESS)).ended is RunState.FAILED


def test_a_literal_is_expanded_at_the_start():
    run = Run(task("a"), task("b", "a", over=[LiteralAxis(2), LiteralAxis(3)]))

    decision = run.decide()

    assert [change for change in decision.changes if change.task_id == "b"] == [
        TaskChange("b", index, SCHEDULED) for index in range(6)
    ]
    assert decision.start == (("a", -1),)


def over_result(rule: TriggerRule = TriggerRule.ALL_SUCCESS) -> Run:
    return Run(task("a"), task("b", "a", over=[ResultAxis("a")], trigger_rule=rule), task("c", "b"))


def test_a_result_is_expanded_when_it_is_available():
    run = over_result()
    run.left("a", ["x", "y"])

    before = run.decide(one("a", RUNNING))
    after = run.decide(one("a", SUCCESS), one("b", SCHEDULED), one("c", SCHEDULED))

    assert states(before) == {("b", -1): SCHEDULED, ("c", -1): SCHEDULED}
    assert states(after) == {("b", -1): REMOVED, ("b", 0): SCHEDULED, ("b", 1): SCHEDULED}
    assert after.start == (("b", 0), ("b", 1))


def test_a_mapping_has_as_many_instances_as_keys():
    run = over_result()
    run.left("a", {"x": 1, "y": 2, "z": 3})

    assert len(run.decide(one("a", SUCCESS), one("b", SCHEDULED)).start) == 3


def test_a_pushed_key_takes_precedence_over_that_part_of_the_result():
    run = Run(task("a"), task("b", "a", over=[ResultAxis("a", ("rows",))]))
    run.left("a", {"rows": [1]})
    run.pushed["a"] = [(-1, "[1, 2, 3]")]

    assert len(run.decide(one("a", SUCCESS), one("b", SCHEDULED)).start) == 3


def test_results_are_requested_once():
    run = over_result()
    run.left("a", ["x", "y"])
    run.decide(one("a", SUCCESS), one("b", SCHEDULED), one("c", SCHEDULED))

    run.decide(
        one("a", SUCCESS),
        one("b", REMOVED),
        one("b", RUNNING, 0, started_at=NOW),
        one("b", SCHEDULED, 1),
        one("c", SCHEDULED),
    )

    assert run.asked == ["a"]


def test_results_are_not_requested_while_no_task_can_start():
    run = Run(task("x"), task("a"), task("b", "a", over=[ResultAxis("a")]), max_active_tasks=1)
    run.left("a", ["x"])

    run.decide(one("x", RUNNING), one("a", SUCCESS), one("b", REMOVED), one("b", SCHEDULED, 0))

    assert run.asked == []


def test_an_empty_mapping_is_a_skip_that_propagates():
    run = over_result()
    run.left("a", [])

    decision = run.decide(one("a", SUCCESS), one("b", SCHEDULED), one("c", SCHEDULED))

    assert states(decision) == {("b", -1): SKIPPED, ("c", -1): SKIPPED}
    assert decision.ended is RunState.SUCCESS


def test_an_empty_literal_is_skipped_when_its_upstream_has_ended():
    run = Run(task("a"), task("b", "a", over=[LiteralAxis(0)]))

    assert states(run.decide(one("a", RUNNING))) == {("b", -1): SCHEDULED}
    assert states(run.decide(one("a", SUCCESS), one("b", SCHEDULED))) == {("b", -1): SKIPPED}
    assert states(run.decide(one("a", FAILED), one("b", SCHEDULED))) == {("b", -1): UPSTREAM_FAILED}


@pytest.mark.parametrize(
    ("value", "kind"),
    [("abc", "text"), (3, "a number"), (0.5, "a number"), (True, "true or false"), (None, "null")],
)
def test_a_result_without_length_fails_the_task(value, kind):
    run = over_result()
    run.left("a", value)

    decision = run.decide(one("a", SUCCESS), one("b", SCHEDULED), one("c", SCHEDULED))

    error = f"cannot map over the result of `a`: it is {kind}, not a list or mapping"
    assert decision.changes[0] == TaskChange("b", -1, FAILED, error)
    assert decision.ended is RunState.FAILED


def test_a_task_without_result_cannot_be_mapped_over():
    decision = over_result().decide(one("a", SUCCESS), one("b", SCHEDULED))

    assert decision.changes[0].error == "cannot map over the result of `a`: the task returned none"


def test_a_path_selects_a_part_of_the_result():
    run = Run(task("a"), task("b", "a", over=[ResultAxis("a", ("days", 1))]))
    run.left("a", {"days": [[], [1, 2, 3]]})

    assert len(run.decide(one("a", SUCCESS)).start) == 3


@pytest.mark.parametrize("value", [{}, {"days": [1]}, {"days": 7}, 7])
def test_a_path_without_target_fails_the_task(value):
    run = Run(task("a"), task("b", "a", over=[ResultAxis("a", ("days", 1))]))
    run.left("a", value)

    error = "cannot map over the result of `a`: it has no ['days'][1]"
    assert run.decide(one("a", SUCCESS)).changes == (TaskChange("b", -1, FAILED, error),)


def test_a_path_to_a_value_that_is_not_a_list_fails_the_task():
    run = Run(task("a"), task("b", "a", over=[ResultAxis("a", ("day",))]))
    run.left("a", {"day": 7})

    assert (
        "the result of `a` at ['day']: it is a number"
        in run.decide(one("a", SUCCESS)).changes[0].error
    )


def test_several_mapped_arguments_are_multiplied():
    run = Run(task("a"), task("b"), task("c", "a", "b", over=[ResultAxis("a"), ResultAxis("b")]))
    run.left("a", [1, 2, 3])
    run.left("b", [1, 2])

    assert len(run.decide(one("a", SUCCESS), one("b", SUCCESS)).start) == 6


def test_more_combinations_than_could_ever_run_fail_the_task():
    run = Run(task("a", over=[LiteralAxis(1_000_000)] * 5))

    (change,) = run.decide().changes

    assert change.state is FAILED
    assert change.error.endswith("000 items: the maximum is 100,000")


def test_the_results_of_a_mapped_task_are_mapped_over_one_by_one():
    run = Run(
        task("a", over=[LiteralAxis(3)]),
        task("b", "a", over=[ResultAxis("a")], trigger_rule=TriggerRule.ALL_DONE),
    )
    run.results["a"] = [(0, '"x"'), (2, '"y"')]
    ended = [one("a", state, index) for index, state in enumerate([SUCCESS, FAILED, SUCCESS])]

    running = run.decide(one("a", REMOVED), *ended[:2], one("a", RUNNING, 2))
    done = run.decide(one("a", REMOVED), *ended, one("b", SCHEDULED))

    assert running.start == ()
    assert done.start == (("b", 0), ("b", 1))


def test_a_path_counts_the_results_of_a_mapped_task_that_have_it():
    run = Run(task("a", over=[LiteralAxis(2)]), task("b", "a", over=[ResultAxis("a", ("day",))]))
    run.left("a", {"day": 1}, {"night": 1}, index=0)

    decision = run.decide(one("a", REMOVED), one("a", SUCCESS, 0), one("a", SUCCESS, 1))

    assert decision.start == (("b", 0),)


@pytest.mark.parametrize(
    ("state", "expected"),
    [(FAILED, UPSTREAM_FAILED), (UPSTREAM_FAILED, UPSTREAM_FAILED), (SKIPPED, SKIPPED)],
)
def test_no_trigger_rule_lets_a_task_map_over_a_task_without_success(state, expected):
    run = over_result(TriggerRule.ALL_DONE)

    decision = run.decide(one("a", state), one("b", SCHEDULED))

    assert states(decision)["b", -1] is expected


def test_a_list_that_became_shorter_removes_the_surplus_instances():
    run = over_result()
    run.left("a", ["x"])
    cleared = [one("b", SCHEDULED, index, started_at=NOW - 5 * MINUTE) for index in range(3)]

    decision = run.decide(one("a", SUCCESS), one("b", REMOVED), *cleared, one("c", SCHEDULED))

    assert states(decision) == {("b", 1): REMOVED, ("b", 2): REMOVED}
    assert decision.start == (("b", 0),)


def test_a_list_that_became_longer_restores_removed_instances():
    run = over_result()
    run.left("a", ["x", "y", "z"])

    decision = run.decide(
        one("a", SUCCESS), one("b", SCHEDULED), one("b", SCHEDULED, 0), one("b", REMOVED, 1)
    )

    assert decision.start == (("b", 0), ("b", 1), ("b", 2))
    assert states(decision)["b", -1] is REMOVED
    assert states(decision)["b", 1] is SCHEDULED


def test_a_list_that_became_empty_skips_the_task():
    run = over_result()
    run.left("a", [])

    decision = run.decide(
        one("a", SUCCESS), one("b", REMOVED), one("b", SCHEDULED, 0), one("c", SCHEDULED)
    )

    assert states(decision) == {("b", 0): REMOVED, ("b", -1): SKIPPED, ("c", -1): SKIPPED}


def test_a_single_cleared_index_runs_again_without_a_request_for_results():
    run = over_result()
    ended = NOW - 5 * MINUTE
    others = [one("b", SUCCESS, index, started_at=NOW - MINUTE) for index in (0, 2)]

    decision = run.decide(
        one("a", SUCCESS, ended_at=ended), one("b", REMOVED), *others, one("b", SCHEDULED, 1)
    )

    assert decision.start == (("b", 1),)
    assert run.asked == []


def test_no_change_is_decided_twice():
    """Apply decisions until there are no changes, as a supervisor does."""
    run = Run(task("a"), task("b", "a", over=[ResultAxis("a")]), task("c", "b"), task("d", "c"))
    run.left("a", [])
    known = [one("a", SUCCESS), one("b", REMOVED), one("b", REMOVED, 0), one("c", REMOVED)]

    first = run.decide(*known)
    changed = [one(change.task_id, change.state, change.map_index) for change in first.changes]
    second = run.decide(one("a", SUCCESS), one("b", REMOVED, 0), *changed)

    assert states(first) == {(name, -1): SKIPPED for name in "bcd"}
    assert second == Decision(ended=RunState.SUCCESS)


def test_the_decisions_about_a_thousand_tasks_are_quick():
    names = [f"t{number}" for number in range(1000)]
    run = Run(task("t0"), *(task(name, names[i]) for i, name in enumerate(names[1:])))
    known = [one(name, SUCCESS if i < 500 else SCHEDULED) for i, name in enumerate(names)]

    assert seconds(run, known) < 0.1


def test_the_time_of_a_decision_grows_no_faster_than_the_number_of_map_indices():
    run = over_result()
    run.left("a", list(range(20_000)))
    few = [one("b", SUCCESS, index) for index in range(2_000)]
    many = [one("b", SUCCESS, index) for index in range(20_000)]

    assert seconds(run, [one("a", SUCCESS), *many]) < 50 * seconds(run, [one("a", SUCCESS), *few])
    assert seconds(run, [one("a", SUCCESS), one("b", SCHEDULED)]) < 1


def seconds(run: Run, known: list[TaskInstance]) -> float:
    """Return the least CPU time of a decision."""
    found = []
    for _ in range(5):
        begun = time.thread_time()
        run.decide(*known)
        found.append(time.thread_time() - begun)
    return min(found)
