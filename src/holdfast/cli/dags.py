"""`holdfast dags`: the DAGs that schedulers have found in files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import click
import msgspec

from holdfast import commands as c
from holdfast.actions.dags import count_runs, delete_dag
from holdfast.actions.log_retention import delete_logs
from holdfast.cli.opening import open_store
from holdfast.cli.output import (
    counted,
    json_option,
    print_document,
    print_facts,
    print_table,
    say,
    when,
)
from holdfast.cli.parameter import ID
from holdfast.cli.question import ask, yes_option_if
from holdfast.model import run_presentation
from holdfast.model.alert import last_line
from holdfast.model.dag import TaskSpec, spec_of
from holdfast.model.run import DagInfo, Run
from holdfast.model.schedule_text import asset_text, interval_text, schedule_text
from holdfast.model.timetable import next_run_at
from holdfast.portable.identifier import escaped_lines, one_line
from holdfast.settings import load
from holdfast.store import run


@click.group("dags")
def command() -> None:
    """List, show, pause, unpause and delete DAGs."""


@command.command("list")
@json_option
def list_dags(as_json: bool) -> None:
    """List DAGs with their schedules."""
    with open_store(load()) as store:
        dags = store.execute(c.ListDags())
        broken = store.execute(c.ListFiles(broken=True))
        found = [(dag, store.execute(c.ListRuns(dag_id=dag.dag_id, limit=1))) for dag in dags]
        now = store.execute(c.Now())
    if as_json:
        documents = [of_dag(dag, runs, now) for dag, runs in found]
        print_document({"dags": documents, "total_entries": len(found)})
    elif found:
        print_table(
            ("dag", "schedule", "paused", "next run", "last run", "file"),
            [
                (
                    dag.dag_id,
                    schedule_text(spec_of(dag).schedule),
                    "yes" if dag.paused else "no",
                    when(next_run_at(dag, now)),
                    str(runs[0].state) if runs else "",
                    where(dag),
                )
                for dag, runs in found
            ],
        )
    else:
        say("There are no DAGs; `holdfast run FILE` or a scheduler registers the DAGs of files.")
    for file in broken:
        say(f"broken: {file.file}: {one_line(last_line(file.error))}")
    if broken:
        say("hint: `holdfast dags errors` shows the tracebacks")


@command.command("show")
@click.argument("dag_id", type=ID)
@json_option
def show(dag_id: str, as_json: bool) -> None:
    """Show a DAG and its tasks."""
    with open_store(load()) as store:
        dag = store.execute(c.GetDag(dag_id))
        runs = store.execute(c.ListRuns(dag_id=dag_id, limit=1))
        now = store.execute(c.Now())
    spec = spec_of(dag)
    if as_json:
        tasks = msgspec.to_builtins(spec.tasks, order="deterministic")
        document = of_dag(dag, runs, now)
        print_document({**document, "params": msgspec.Raw(spec.params), "tasks": tasks})
        return
    print_facts(
        {
            "dag": dag.dag_id,
            "file": where(dag),
            "description": spec.description,
            "tags": ", ".join(spec.tags),
            "schedule": schedule_text(spec.schedule),
            "paused": "yes" if dag.paused else "no",
            "next run": when(next_run_at(dag, now)),
            "last run": f"{runs[0].run_id}, {runs[0].state}" if runs else "",
            "start date": when(spec.start_date),
            "end date": when(spec.end_date),
            "catchup": "yes" if spec.catchup else "no",
            "params": spec.params if spec.params != "{}" else "",
            "watchers": ", ".join(f"{one.name} of {one.asset.name}" for one in spec.watchers),
        }
    )
    print_table(
        ("task", "upstream", "trigger rule", "retries", "mapped", "Spark", "inlets", "outlets"),
        [task_cells(task) for task in spec.tasks],
    )


@command.command("errors")
@json_option
def errors(as_json: bool) -> None:
    """Show the files that cannot be imported, with their tracebacks."""
    with open_store(load()) as store:
        broken = store.execute(c.ListFiles(broken=True))
    if as_json:
        documents = [run_presentation.of_import_error(file) for file in broken]
        print_document({"import_errors": documents, "total_entries": len(broken)})
        return
    for file in broken:
        click.echo(f"{file.file}:\n{escaped_lines(file.error.rstrip())}\n")
    if not broken:
        say("No file is broken.")


@command.command("pause")
@click.argument("dag_id", type=ID)
@json_option
def pause(dag_id: str, as_json: bool) -> None:
    """Pause a DAG: its schedule starts no more runs."""
    set_paused(dag_id, True, as_json)


@command.command("unpause")
@click.argument("dag_id", type=ID)
@json_option
def unpause(dag_id: str, as_json: bool) -> None:
    """Unpause a DAG: its schedule starts runs again."""
    set_paused(dag_id, False, as_json)


@command.command("delete")
@click.argument("dag_id", type=ID)
@click.option("--dry-run", is_flag=True, is_eager=True, help="Only say what would be deleted.")
@yes_option_if(lambda params: not params["dry_run"])
@json_option
def delete(dag_id: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Delete a DAG whose file is gone, with its runs, their task instances, state and logs.

    Its assets stay, as long as another DAG declares them. If the file comes back meanwhile, the DAG
    and the runs that are left stay. If it comes back later, the DAG is new: paused only if its file
    says so, and its schedule starts from then, or with catchup at its start date.
    """
    settings = load()
    with open_store(settings) as store:
        runs = run(store, count_runs(dag_id))
        what = f"DAG `{dag_id}` with {counted(runs, 'run', 'runs')}"
        if not dry_run:
            ask(f"Delete {what}, their task instances, state and logs?", yes)
            runs = run(store, delete_dag(dag_id))
            what = f"DAG `{dag_id}` with {counted(runs, 'run', 'runs')}"
    if not dry_run and not settings.server_url:  # which deletes them itself
        delete_logs(settings, dag_id)
    say(f"{'Would delete' if dry_run else 'Deleted'} {what}.")
    if as_json:
        print_document({"dag_id": dag_id, "runs": runs, "dry_run": dry_run})


def set_paused(dag_id: str, paused: bool, as_json: bool) -> None:
    with open_store(load()) as store:
        store.execute(c.PauseDag(dag_id, paused))
    say(f"DAG `{dag_id}` is {'paused' if paused else 'no longer paused'}.")
    if as_json:
        print_document({"dag_id": dag_id, "is_paused": paused})


def of_dag(dag: DagInfo, runs: Sequence[Run], now: datetime) -> dict[str, Any]:
    """Return a DAG in the form that `--json` prints, with its newest run."""
    newest = runs[0] if runs else None
    return run_presentation.of_dag(dag, now) | {
        "last_dag_run_id": newest and newest.run_id,
        "last_dag_run_state": newest and newest.state,
    }


def where(dag: DagInfo) -> str:
    """Return the file that holds a DAG, or text that says since when none does."""
    if dag.stale_at is not None:
        return f"stale since {when(dag.stale_at)}"
    return dag.file or f"missing since {when(dag.seen_at)}"


def task_cells(task: TaskSpec) -> tuple[str, ...]:
    retries = str(task.retries)
    if task.retries:
        retries += f" after {interval_text(task.retry_delay)}"
    return (
        task.task_id,
        ", ".join(task.upstream),
        task.trigger_rule,
        retries,
        "yes" if task.mapped else "",
        "yes" if task.spark else "",
        ", ".join(asset_text(one) for one in task.inlets),
        ", ".join(asset_text(one) for one in task.outlets),
    )
