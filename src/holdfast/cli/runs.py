"""`holdfast runs`: the runs of DAGs."""

from __future__ import annotations

import shlex
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from itertools import islice
from typing import Any
from zoneinfo import ZoneInfo

import click

from holdfast import commands as c
from holdfast.actions import runs as actions
from holdfast.actions.runs import check_deletable, check_startable, manual_run
from holdfast.cli.assets import of_event
from holdfast.cli.document import as_written
from holdfast.cli.liveview import span_text, table_rows
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
from holdfast.cli.parameter import ID, conf_option, limit_option, moment
from holdfast.cli.prune import prune
from holdfast.cli.question import ask, yes_option
from holdfast.cli.tasks import marks
from holdfast.errors import Conflict, InvalidInput, NotFound
from holdfast.model import run_presentation
from holdfast.model.dag import Cron, DagSpec, spec_of
from holdfast.model.run import Run, RunKind, RunState, TaskState
from holdfast.model.run_presentation import of_task_instance
from holdfast.portable.identifier import one_line
from holdfast.settings import load
from holdfast.store import Store
from holdfast.store import run as run_steps

PAGE = 1000
MOST_RUNS = 100_000
"""Maximum number of runs of one backfill, which are held in memory."""


@click.group("runs")
def command() -> None:
    """List, start, stop, mark and delete the runs of DAGs."""


@command.command("list")
@click.option("--dag-id", type=ID, metavar="ID", help="Only runs of this DAG.")
@click.option(
    "--state",
    "states",
    multiple=True,
    type=click.Choice([state.value for state in RunState]),
    help="Only runs in this state; may be given several times.",
)
@limit_option
@json_option
def list_runs(dag_id: str | None, states: tuple[str, ...], limit: int, as_json: bool) -> None:
    """List runs, newest first."""
    wanted = tuple(RunState(state) for state in states)
    with open_store(load()) as store:
        listing = c.ListRuns(dag_id=dag_id, states=wanted, limit=limit + 1)
        found = run_steps(store, actions.list_runs(listing))
        total = store.execute(c.Count(listing)) if as_json else 0
        now = store.execute(c.Now())
    runs, more = found[:limit], len(found) > limit
    if as_json:
        print_document({"dag_runs": [of_run(run) for run in runs], "total_entries": total})
        return
    if runs:
        print_table(
            ("dag", "run", "kind", "state", "logical date", "started", "time"),
            [
                (
                    run.dag_id,
                    run.run_id,
                    run.kind,
                    run.state,
                    when(run.logical_date),
                    when(run.started_at),
                    length_text(run, now),
                )
                for run in runs
            ],
        )
    else:
        say("There are no matching runs." if dag_id or states else "There are no runs.")
    if more:
        say("There are more; raise --limit to show them.")


@command.command("show")
@click.argument("dag_id", type=ID)
@click.argument("run_id", type=ID)
@json_option
def show(dag_id: str, run_id: str, as_json: bool) -> None:
    """Show a run and its tasks."""
    with open_store(load()) as store:
        run = store.execute(c.GetRun(dag_id, run_id))
        tasks = store.execute(c.ListTaskInstances(dag_id=dag_id, run_id=run_id))
        events = store.execute(c.RunEvents(dag_id, run_id))
        now = store.execute(c.Now())
        waiting = waits_for(store, run)
    if as_json:
        print_document(
            {
                **of_run(run),
                "asset_events": [of_event(event) for event in events],
                "task_instances": [of_task_instance(one) for one in tasks],
            }
        )
        return
    interval = (run.data_interval_start, run.data_interval_end)
    print_facts(
        {
            "dag": run.dag_id,
            "run": run.run_id,
            "kind": run.kind,
            "state": run.state,
            "waiting for": waiting,
            "logical date": when(run.logical_date),
            "data interval": " to ".join(when(end) for end in interval if end),
            "conf": run.conf if run.conf != "{}" else "",
            "asset events": ", ".join(f"{event.asset.name} {event.number}" for event in events),
            "created": when(run.created_at),
            "started": when(run.started_at),
            "ended": when(run.ended_at),
            "time": length_text(run, now),
            "owner": str(run.owner or "") if not run.state.ended else "",
            "error": one_line(run.error),
        }
    )
    rows = [row.cells(now) for row in table_rows(tasks, {}, now)]
    print_table(("task", "state", "time", "attempt", "error"), rows)


@command.command("trigger")
@click.argument("dag_id", type=ID)
@click.option(
    "--run-id",
    type=ID,
    metavar="ID",
    help="The run's id; by default derived from the logical date.",
)
@conf_option
@click.option("--logical-date", metavar="TIME", help="The run's logical date; by default now.")
@json_option
def trigger(
    dag_id: str, run_id: str | None, conf: str | None, logical_date: str | None, as_json: bool
) -> None:
    """Queue a run of a DAG.

    The run's id is printed. A scheduler runs it, or `holdfast run FILE --run-id ID`.
    """
    with open_store(load()) as store:
        dag = store.execute(c.GetDag(dag_id))
        check_startable(dag)
        now = store.execute(c.Now())
        spec = spec_of(dag)
        zone = zone_of(spec)
        time = moment("--logical-date", logical_date, zone) if logical_date else now
        run = store.execute(manual_run(dag_id, time, run_id, conf or "{}"))
    if as_json:
        print_document(of_run(run))
    else:
        click.echo(run.run_id)
    say(f"Queued run `{run.run_id}` of `{dag_id}`.")
    again = shlex.join(["holdfast", "run", spec.file, "--dag-id", dag_id, "--run-id", run.run_id])
    say(f"hint: a scheduler runs it, or `{again}`")


@command.command("backfill")
@click.argument("dag_id", type=ID)
@click.option("--from", "start", required=True, metavar="DATE", help="First date: 2026-01-01.")
@click.option(
    "--to", "end", required=True, metavar="DATE", help="Last date, inclusive: 2026-01-31."
)
@click.option("--dry-run", is_flag=True, help="Only show which runs would be created.")
@json_option
def backfill(dag_id: str, start: str, end: str, dry_run: bool, as_json: bool) -> None:
    """Queue the missing runs of a DAG's schedule between two dates.

    Dates are in the time zone of the schedule; a time may be given too. A scheduler executes the
    runs.
    """
    from holdfast.model.timetable import run_id, slots

    with open_store(load()) as store:
        info = store.execute(c.GetDag(dag_id))
        check_startable(info)
        dag = spec_of(info)
        first = moment("--from", start, zone_of(dag))
        last = moment("--to", end, zone_of(dag), end_of_day=True)
        if last < first:
            raise InvalidInput(f"--to {end} is before --from {start}", hint="swap them")
        until = min(last, store.execute(c.Now()))
        asked = list(islice(slots(dag, first, until), MOST_RUNS + 1))
        if len(asked) > MOST_RUNS:
            raise InvalidInput(
                f"more than {MOST_RUNS:,} runs are between {start} and {end}",
                hint="give a shorter period",
            )
        taken = logical_dates(store, dag_id)
        rows: list[tuple[datetime, str]] = []
        for slot in asked:
            if slot.logical_date in taken:
                continue
            run = c.CreateRun(
                dag_id=dag_id,
                run_id=run_id(RunKind.BACKFILL, slot.logical_date),
                kind=RunKind.BACKFILL,
                logical_date=slot.logical_date,
                data_interval_start=slot.data_interval_start,
                data_interval_end=slot.data_interval_end,
            )
            with suppress(Conflict):  # the schedule, or another backfill, has just created it
                if not dry_run:
                    store.execute(run)
                rows.append((slot.logical_date, run.run_id))
    existing = len(asked) - len(rows)
    if as_json:
        runs = [{"run_id": id, "logical_date": date} for date, id in rows]
        print_document({"dag_runs": runs, "existing": existing, "dry_run": dry_run})
    elif rows:
        print_table(("logical date", "run"), [(when(date), id) for date, id in rows])
    queued = "would be queued" if dry_run else "queued"
    say(f"{counted(len(rows), 'run', 'runs')} {queued}; {existing:,} exist already.")


@command.command("stop")
@click.argument("dag_id", type=ID)
@click.argument("run_id", type=ID)
@json_option
def stop(dag_id: str, run_id: str, as_json: bool) -> None:
    """Stop a queued or running run: it has failed.

    Tasks that have not ended fail with it. Running attempts are ended, with their Spark work and
    their submitted jobs, and their staged asset writes are discarded. `holdfast tasks clear
    --failed` resumes the run.
    """
    command = actions.stop(dag_id, run_id, person())
    end_run(command, f"Stopped run `{run_id}` of `{dag_id}`.", as_json)


@command.command("mark")
@click.argument("dag_id", type=ID)
@click.argument("run_id", type=ID)
@marks(TaskState.SUCCESS, TaskState.FAILED)
@json_option
def mark(dag_id: str, run_id: str, state: TaskState, as_json: bool) -> None:
    """Set the state of a run, whether it has ended or not.

    Tasks that have not ended get the same state, as with `stop`; all others keep theirs.
    """
    clear = load().state_store.clear_on_success
    command = actions.mark(dag_id, run_id, RunState(state.value), person(), clear)
    end_run(command, f"Marked run `{run_id}` of `{dag_id}` as {state}.", as_json)


def end_run(command: c.MarkRun, done: str, as_json: bool) -> None:
    with open_store(load()) as store:
        run = store.execute(command)
    say(done)
    if as_json:
        print_document(of_run(run))


@command.command("delete")
@click.argument("dag_id", type=ID)
@click.argument("run_id", type=ID)
@yes_option
@json_option
def delete(dag_id: str, run_id: str, yes: bool, as_json: bool) -> None:
    """Delete a run with its task instances, their task stores and logs."""
    from holdfast.actions.log_retention import delete_logs

    settings = load()
    with open_store(settings) as store:
        run = store.execute(c.GetRun(dag_id, run_id))
        tasks = store.execute(c.ListTaskInstances(dag_id=dag_id, run_id=run_id))
        check_deletable(run, store.execute(c.Now()))
        what = counted(len(tasks), "task instance", "task instances")
        ask(f"Delete run `{run_id}` of `{dag_id}` with {what}, their state and logs?", yes)
        store.execute(c.DeleteRun(dag_id, run_id, unless_leased=True))
    if not settings.server_url:  # which deletes them itself
        delete_logs(settings, dag_id, run_id)
    say(f"Deleted run `{run_id}` of `{dag_id}`.")
    if as_json:
        print_document({"deleted": 1})


command.add_command(prune)


def of_run(run: Run) -> dict[str, Any]:
    return run_presentation.of_run(run, as_written)


def waits_for(store: Store, run: Run) -> str:
    """Return what keeps every scheduler from continuing a run; usually empty."""
    if run.state.ended or run.kind is RunKind.EXTERNAL:
        return ""
    with suppress(NotFound):
        if store.execute(c.GetDag(run.dag_id)).file:
            return ""
    return f"a DAG file that defines `{run.dag_id}`: there is none"


def length_text(run: Run, now: datetime) -> str:
    return span_text(run.started_at, run.ended_at if run.state.ended else now)


def logical_dates(store: Store, dag_id: str) -> set[datetime]:
    """Return the logical dates that have a run."""
    found: set[datetime] = set()
    offset = 0
    while runs := store.execute(c.ListRuns(dag_id=dag_id, limit=PAGE, offset=offset)):
        found.update(run.logical_date for run in runs if run.logical_date is not None)
        offset += len(runs)
    return found


def zone_of(dag: DagSpec) -> tzinfo:
    """Return the time zone of the dates of a DAG."""
    return ZoneInfo(dag.schedule.timezone) if isinstance(dag.schedule, Cron) else UTC
