"""`holdfast state-store cleanup-task-store` and `cleanup-asset-store`: delete expired task entries,
and the state of assets that no DAG declares."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from datetime import timedelta

import click

from holdfast import commands as c
from holdfast.cleanup.orphans import OrphanPlan
from holdfast.cleanup.plan import CleanupPlan, can_plan
from holdfast.cleanup.requests import forget_requests
from holdfast.cli.opening import open_store
from holdfast.cli.output import (
    counted,
    json_option,
    print_document,
    print_items_document,
    print_lines,
)
from holdfast.cli.parameter import COUNT
from holdfast.model.entry import Expired
from holdfast.model.presentation import of_scope
from holdfast.settings import load
from holdfast.store import Store


@click.command("cleanup-task-store")
@click.option(
    "--batch-size",
    type=COUNT,
    metavar="N",
    help="Rows per transaction; 0: all in one statement. Overrides state_cleanup_batch_size.",
)
@click.option("--dry-run", is_flag=True, help="Only show what would be deleted.")
@click.option("--verbose", "-v", is_flag=True, help="Show each deleted row.")
@json_option
def cleanup_task_store(batch_size: int | None, dry_run: bool, verbose: bool, as_json: bool) -> None:
    """Delete expired task entries.

    Responses that a server stores for retries of clients are deleted too, once a client has been
    inactive for a day.

    Rows are shown by dag, run, task, map index and key. Aliases: `clean` and
    `cleanup-task-states`.
    """
    settings = load()
    size = settings.state_store.state_cleanup_batch_size if batch_size is None else batch_size
    with open_store(settings) as store:
        if not dry_run:
            forget_requests(store)
        if not can_plan(store):
            clean_backend(store, settings.state_store.backend, dry_run, as_json)
            return
        plan = CleanupPlan.now(store)
        if dry_run:
            preview(plan, as_json)
        elif verbose:
            delete_verbosely(plan, size, as_json)
        else:
            delete(plan, size, as_json)


@click.command("cleanup-asset-store")
@click.option("--dry-run", is_flag=True, help="Only show which assets would lose their state.")
@json_option
def cleanup_asset_store(dry_run: bool, as_json: bool) -> None:
    """Delete the state of assets that no DAG declares any more.

    An asset loses its entries and history once it has been inactive for [state_store]
    orphan_grace_days; the asset itself stays. A scheduler does this periodically.
    """
    settings = load()
    grace = timedelta(days=settings.state_store.orphan_grace_days)
    with open_store(settings) as store:
        plan = OrphanPlan.now(store, grace)
        names = [asset.name for asset in plan.assets()] if dry_run else []
        count = len(names) if dry_run else plan.sweep()
    if as_json:
        found = {"cutoff": plan.cutoff, "dry_run": dry_run, "count": count}
        print_document(found | ({"assets": names} if dry_run else {}))
    elif count:
        would = "would lose" if dry_run else "lost"
        end = ":" if dry_run else "."
        click.echo(f"{counted(count, 'asset', 'assets')} {would} all state{end}")
        print_lines(names)
    else:
        click.echo("Nothing to delete.")


def clean_backend(store: Store, name: str, dry_run: bool, as_json: bool) -> None:
    """Run the cleanup of a custom backend, or report that it has none."""
    has_cleanup = store.execute(c.CleanUpBackend(dry_run)).called
    if as_json:
        called = has_cleanup and not dry_run
        print_document({"backend": name, "dry_run": dry_run, "called": called})
    elif not has_cleanup:
        click.echo(f"Skipped: the backend {name} has no cleanup.")
    elif dry_run:
        click.echo(
            f"No preview: the backend {name} has its own cleanup, which cannot be previewed."
        )
    else:
        click.echo(f"Ran the cleanup of the backend {name}.")


def preview(plan: CleanupPlan, as_json: bool) -> None:
    if as_json:
        print_rows_document(plan, plan.rows(), dry_run=True)
    elif count := plan.count():
        click.echo(f"{counted(count, 'row', 'rows')} would be deleted:")
        print_lines(line(row) for row in plan.rows())
    else:
        click.echo("Nothing to delete.")


def delete_verbosely(plan: CleanupPlan, batch_size: int, as_json: bool) -> None:
    rows = plan.take(batch_size)
    if as_json:
        print_rows_document(plan, rows, dry_run=False)
    else:
        click.echo(deleted_text(print_lines(line(row) for row in rows)))


def delete(plan: CleanupPlan, batch_size: int, as_json: bool) -> None:
    batches = plan.delete(batch_size)
    if sys.stderr.isatty():
        batches = with_progress(plan, batches)
    count = sum(batches)
    if as_json:
        print_document({"cutoff": plan.cutoff, "dry_run": False, "count": count})
    else:
        click.echo(deleted_text(count))


def with_progress(plan: CleanupPlan, batches: Iterable[int]) -> Iterator[int]:
    """Yield the same batches, with a progress bar on the terminal while they run."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("Deleting expired entries", total=plan.count())
        for gone in batches:
            progress.advance(bar, gone)
            yield gone


def print_rows_document(plan: CleanupPlan, rows: Iterable[Expired], dry_run: bool) -> None:
    head = {"cutoff": plan.cutoff, "dry_run": dry_run}
    print_items_document(head, "rows", ({**of_scope(row.scope), "key": row.key} for row in rows))


def line(row: Expired) -> str:
    scope = row.scope
    return "\t".join((scope.dag_id, scope.run_id, scope.task_id, str(scope.map_index), row.key))


def deleted_text(count: int) -> str:
    return f"{counted(count, 'row', 'rows')} deleted." if count else "Nothing to delete."
