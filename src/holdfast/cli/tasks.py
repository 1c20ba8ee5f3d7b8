"""`holdfast tasks`: the task instances of a run, and their attempts."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import wraps
from typing import Any, Literal

import click

from holdfast import commands as c
from holdfast.actions.logs import find_attempt, host_of, open_log, read_attempt
from holdfast.actions.tasks import Choice, choose, find, mark
from holdfast.cli.liveview import span_text
from holdfast.cli.logs import print_log
from holdfast.cli.opening import open_store, person
from holdfast.cli.output import (
    counted,
    json_option,
    print_document,
    print_facts,
    print_table,
    say,
    when,
)
from holdfast.cli.parameter import COUNT, ID, MAP_INDEX, whole_number
from holdfast.cli.question import ask, yes_option
from holdfast.errors import InvalidInput
from holdfast.model.presentation import of_scope
from holdfast.model.run import AttemptInfo, TaskInstance, TaskState
from holdfast.model.run_presentation import of_attempt, of_task_instance
from holdfast.portable.identifier import one_line
from holdfast.process import signal_name
from holdfast.settings import load
from holdfast.store import Steps
from holdfast.store import run as run_steps

map_index_option = click.option(
    "--map-index", type=MAP_INDEX, metavar="N", help="The index of a mapped task."
)


def instance_arguments(function: Callable[..., None]) -> Callable[..., None]:
    """Add arguments to a command and pass it `instance`: the steps that find a task instance."""

    @wraps(function)
    def with_instance(
        dag_id: str, run_id: str, task_id: str, map_index: int | None, **others: Any
    ) -> None:
        function(instance=find(dag_id, run_id, task_id, map_index), **others)

    ids = [click.argument(name, type=ID) for name in ("dag_id", "run_id", "task_id")]
    return ids[0](ids[1](ids[2](map_index_option(with_instance))))


@click.group("tasks")
def command() -> None:
    """List, show, clear and mark the task instances of a run."""


@command.command("list")
@click.argument("dag_id", type=ID)
@click.argument("run_id", type=ID)
@json_option
def list_tasks(dag_id: str, run_id: str, as_json: bool) -> None:
    """List the task instances of a run."""
    with open_store(load()) as store:
        store.execute(c.GetRun(dag_id, run_id))
        found = store.execute(c.ListTaskInstances(dag_id=dag_id, run_id=run_id))
        now = store.execute(c.Now())
    if as_json:
        documents = [of_task_instance(one) for one in found]
        print_document({"task_instances": documents, "total_entries": len(found)})
    elif found:
        print_table(
            ("task", "map index", "state", "attempt", "started", "time", "reason"),
            [
                (
                    one.scope.task_id,
                    str(one.scope.map_index),
                    str(one.state or ""),
                    str(one.attempt),
                    when(one.started_at),
                    length_text(one, now),
                    reason_text(one),
                )
                for one in found
            ],
        )
    else:
        say(f"Run `{run_id}` of `{dag_id}` has no task instances yet.")


@command.command("show")
@instance_arguments
@json_option
def show(instance: Steps[TaskInstance], as_json: bool) -> None:
    """Show a task instance and its attempts."""
    with open_store(load()) as store:
        one = run_steps(store, instance)
        attempts = store.execute(c.ListAttempts(one.scope))
        now = store.execute(c.Now())
    if as_json:
        print_document(
            {**of_task_instance(one), "attempts": [of_attempt(each) for each in attempts]}
        )
        return
    print_facts(
        {
            "dag": one.scope.dag_id,
            "run": one.scope.run_id,
            "task": one.scope.task_id,
            "map index": str(one.scope.map_index) if one.scope.map_index >= 0 else "",
            "state": str(one.state or "not run by Holdfast"),
            "attempt": str(one.attempt),
            "failures": str(one.failures or ""),
            "interruptions": str(one.interruptions or ""),
            "next try": when(one.ready_at),
            "started": when(one.started_at),
            "ended": when(one.ended_at),
            "waits for": one.waits_for,
            "error": one_line(one.error),
        }
    )
    print_table(
        ("attempt", "started", "time", "outcome", "exit", "host", "error"),
        [
            (
                str(each.number),
                when(each.started_at),
                span_text(each.started_at, each.ended_at or now),
                str(each.outcome or "running"),
                exit_text(each),
                host_of(each),
                one_line(each.error),
            )
            for each in attempts
        ],
    )


@command.command("clear")
@click.argument("dag_id", type=ID)
@click.argument("run_id", type=ID)
@click.argument("task_ids", nargs=-1, type=ID, metavar="[TASK_ID]...")
@map_index_option
@click.option("--failed", is_flag=True, help="Only tasks that failed, themselves or upstream.")
@click.option("--downstream", is_flag=True, help="Also all downstream tasks.")
@click.option("--keep-state", is_flag=True, help="Keep their task stores: the tasks resume.")
@click.option(
    "--discard-state", is_flag=True, help="Delete their task stores: the tasks start over."
)
@yes_option
@json_option
def clear(
    dag_id: str,
    run_id: str,
    task_ids: tuple[str, ...],
    map_index: int | None,
    failed: bool,
    downstream: bool,
    keep_state: bool,
    discard_state: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Clear tasks of a run, so that they run again: the named tasks, or all.

    By default, tasks that had succeeded start over, and all others resume with their task stores. A
    run that has ended without any task, such as one that was stopped while it was queued, is queued
    again; with --failed, if it has failed.
    """
    if map_index is not None and not task_ids:
        raise InvalidInput("--map-index is given without a task", hint="name the task")
    state = state_choice(keep_state, discard_state)
    named = [(task_id, map_index) for task_id in task_ids]
    with open_store(load()) as store:
        steps = choose(dag_id, run_id, named, failed=failed, downstream=downstream)
        choice = run_steps(store, steps)
        concerned = choice.concerned
        if not choice.empty:
            ask(clear_question(choice, dag_id, run_id), yes)
            store.execute(
                c.ClearTasks(
                    dag_id=dag_id,
                    run_id=run_id,
                    tasks=choice.tasks,
                    writer=person(),
                    state=state,
                )
            )
    if choice.whole_run:
        say(f"Queued run `{run_id}` of `{dag_id}` again: it had ended without any task.")
    elif concerned:
        say(f"Cleared {counted(len(concerned), 'task instance', 'task instances')}.")
    if not choice.empty:
        say("hint: a scheduler continues the run, or `holdfast run FILE --run-id` does")
    else:
        say("There is nothing to clear.")
    if as_json:
        cleared = [of_scope(one.scope) for one in concerned]
        print_document({"cleared": cleared, "whole_run": choice.whole_run})


def marks(*states: TaskState) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add an option for each state to a command, and pass it the given one as `state`. Raise
    InvalidInput unless it is exactly one."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @wraps(function)
        def with_state(**others: Any) -> None:
            given = [state for state in states if others.pop(state.value)]
            if len(given) != 1:
                what = "several states are given" if given else "no state is given"
                options = " or ".join(f"--{state}" for state in states)
                raise InvalidInput(what, hint=f"give {options}")
            function(state=given[0], **others)

        for state in reversed(states):
            option = click.option(f"--{state}", is_flag=True, help=f"Mark as {state}.")
            with_state = option(with_state)
        return with_state

    return decorate


@command.command("mark")
@click.argument("dag_id", type=ID)
@click.argument("run_id", type=ID)
@click.argument("task_id", type=ID)
@click.option(
    "--map-index",
    type=MAP_INDEX,
    metavar="N",
    help="The index of a mapped task; by default all its instances.",
)
@marks(TaskState.SUCCESS, TaskState.FAILED, TaskState.SKIPPED)
@json_option
def mark_tasks(
    dag_id: str,
    run_id: str,
    task_id: str,
    map_index: int | None,
    state: TaskState,
    as_json: bool,
) -> None:
    """Set a task's state; that of a mapped task with all its instances, or one of them.

    Running attempts are ended, and their staged asset writes are discarded.
    """
    settings = load()
    clear = settings.state_store.clear_on_success
    named = (dag_id, run_id, task_id, map_index)
    with open_store(settings) as store:
        steps = mark(*named, state=state, writer=person(), clear=clear)
        marked = run_steps(store, steps)
    what = marked[0].scope if len(marked) == 1 else f"{len(marked):,} instances of task {task_id}"
    say(f"Marked {what} as {state}.")
    if as_json:
        documents = [of_task_instance(one) for one in marked]
        print_document({"task_instances": documents, "total_entries": len(marked)})


@command.command("logs")
@instance_arguments
@click.option(
    "--attempt",
    "number",
    type=whole_number(1, 2**31 - 1),
    metavar="N",
    help="Number of the attempt; by default the newest.",
)
@click.option("--follow", "-f", is_flag=True, help="Follow the log until the attempt ends.")
@click.option(
    "--tail",
    type=COUNT,
    metavar="N",
    help="Only the last N lines, of the last 16 MB; from a server, up to 10,000.",
)
def logs(instance: Steps[TaskInstance], number: int | None, follow: bool, tail: int | None) -> None:
    """Print the log of a task's attempt."""
    settings = load()
    with open_store(settings, patient=follow) as store:
        attempt = run_steps(store, find_attempt(instance, number))

        def ended() -> bool:
            return run_steps(store, read_attempt(attempt.scope, attempt.number)).ended

        log = print_log(lambda: open_log(settings, attempt, store), tail, ended if follow else None)
    if log is not None and not log.is_complete and (attempt.ended or follow):
        say(f"The end of this log has not been uploaded yet: it is on {attempt.host}.")


def state_choice(keep: bool, discard: bool) -> Literal["keep", "discard", "default"]:
    if keep and discard:
        raise InvalidInput("both --keep-state and --discard-state are given", hint="give one")
    return "keep" if keep else "discard" if discard else "default"


def clear_question(choice: Choice, dag_id: str, run_id: str) -> str:
    if choice.whole_run:
        return f"Queue run `{run_id}` of `{dag_id}` again, which has ended without any task?"
    concerned = choice.concerned
    what = counted(len(concerned), "task instance", "task instances")
    running = sum(1 for one in concerned if one.state is TaskState.RUNNING)
    note = f" Running attempts that will be stopped: {running:,}." if running else ""
    return f"Clear {what} of run `{run_id}` of `{dag_id}`?{note}"


def reason_text(one: TaskInstance) -> str:
    """Return why a task instance is in its state, or what it waits for."""
    return f"waits for {one.waits_for}" if one.waits_for else one_line(one.error)


def length_text(one: TaskInstance, now: datetime) -> str:
    return span_text(one.started_at, now if one.state is TaskState.RUNNING else one.ended_at)


def exit_text(attempt: AttemptInfo) -> str:
    if attempt.signal is not None:
        return signal_name(attempt.signal)
    return "" if attempt.exit_status is None else str(attempt.exit_status)
