"""`holdfast state-store cleanup-asset-store`: delete the state of assets that no DAG declares."""

from __future__ import annotations

from datetime import timedelta

import click

from holdfast.cleanup.orphans import OrphanPlan
from holdfast.cli.opening import open_store
from holdfast.cli.output import counted, json_option, print_document, print_lines
from holdfast.settings import load


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
        return
    if not count:
        click.echo("Nothing to delete.")
        return
    would = "would lose" if dry_run else "lost"
    click.echo(f"{counted(count, 'asset', 'assets')} {would} all state{':' if dry_run else '.'}")
    print_lines(names)
