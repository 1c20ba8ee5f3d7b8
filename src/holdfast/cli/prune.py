"""`holdfast runs prune`: delete old runs."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import click

from holdfast import commands as c
from holdfast.cleanup.retention import RunPlan
from holdfast.cli.opening import open_store
from holdfast.cli.output import (
    counted,
    json_option,
    print_document,
    print_items_document,
    print_lines,
    say,
    time_text,
)
from holdfast.cli.parameter import ID, moment
from holdfast.cli.question import ask, yes_option_if
from holdfast.errors import InvalidInput
from holdfast.model.duration import duration
from holdfast.model.run import PrunableRun, RunState
from holdfast.model.run_presentation import of_prunable_run
from holdfast.settings import Settings, load


@click.command("prune")
@click.option(
    "--before",
    required=True,
    metavar="TIME",
    help="Runs that ended this long ago, as 90d, or before this date, as 2026-01-01 (UTC).",
)
@click.option("--dag-id", type=ID, metavar="ID", help="Only runs of this DAG.")
@click.option(
    "--state",
    type=click.Choice([state.value for state in RunState if state.ended]),
    help="Only runs in this state.",
)
@click.option("--dry-run", is_flag=True, is_eager=True, help="Only show what would be deleted.")
@yes_option_if(lambda given: not given["dry_run"])
@json_option
def prune(
    before: str, dag_id: str | None, state: str | None, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Delete old runs with their task instances, their task stores and logs.

    Runs that are still needed are left: those that have not ended, the newest ended run of each
    kind of a DAG, and those with a task entry that has not expired. A dry run shows dag, run, kind,
    state and end of each run. A scheduler deletes runs periodically: see [retention] runs.
    """
    settings = load()
    with open_store(settings) as store:
        now = store.execute(c.Now())
        cutoff = min(now, parsed(before, now))
        which = c.RunsToPrune(
            now=now,
            before=cutoff,
            external_before=cutoff,
            dag_id=dag_id,
            state=RunState(state) if state else None,
        )
        plan = RunPlan(store, which)
        if dry_run:
            preview(plan, cutoff, as_json)
            return
        if not yes:
            if not (count := sum(1 for _ in plan.rows())):
                report(0, cutoff, as_json)
                return
            runs = counted(count, "run", "runs")
            ask(f"Delete {runs} that ended by {time_text(cutoff)}, with state and logs?", yes)
        report(sum(1 for _ in deleted(plan, settings)), cutoff, as_json)


def parsed(before: str, now: datetime) -> datetime:
    """Return the time that `--before` names. Raise InvalidInput."""
    try:
        return now - duration(before)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC)
    except ValueError:
        pass
    try:
        return moment("--before", before, UTC)
    except InvalidInput as error:
        raise InvalidInput(error.message, hint="write 90d or 2026-01-31") from None


def deleted(plan: RunPlan, settings: Settings) -> Iterator[PrunableRun]:
    """Delete the runs and their logs on this machine; yield each."""
    from holdfast.actions.log_retention import delete_local_logs

    for run in plan.delete():
        if not settings.server_url:  # a run of that name in the home directory is another store's
            delete_local_logs(settings.home, run.dag_id, run.run_id)
        yield run


def preview(plan: RunPlan, cutoff: datetime, as_json: bool) -> None:
    if as_json:
        head = {"before": cutoff, "dry_run": True}
        print_items_document(head, "dag_runs", map(of_prunable_run, plan.rows()))
    elif count := print_lines(line(run) for run in plan.rows()):
        say(f"{counted(count, 'run', 'runs')} would be deleted.")
    else:
        click.echo("Nothing to delete.")


def report(count: int, cutoff: datetime, as_json: bool) -> None:
    if as_json:
        print_document({"before": cutoff, "dry_run": False, "count": count})
    else:
        click.echo(f"{counted(count, 'run', 'runs')} deleted." if count else "Nothing to delete.")


def line(run: PrunableRun) -> str:
    ended = time_text(run.ended_at, absent="")
    return "\t".join((run.dag_id, run.run_id, run.kind, run.state, ended))
