"""`holdfast state-store rewind`: restore an old value, and report the loads that this undoes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

import click

from holdfast import commands as c
from holdfast.actions.loads import Load, Undoing, loads_of, undone_by
from holdfast.cli import document
from holdfast.cli.opening import as_worker, open_store, person
from holdfast.cli.output import counted, json_option, print_document, say
from holdfast.cli.parameter import ID, VERSION, key_argument, time_option
from holdfast.cli.question import ask, yes_option_if
from holdfast.cli.removal import Removal, data_of, may_be_there, remove
from holdfast.cli.scope import asset_options
from holdfast.errors import HoldfastError
from holdfast.model.entry import Version
from holdfast.model.rewind import rewind_target
from holdfast.model.scope import AssetScope
from holdfast.settings import load
from holdfast.store import run


@click.command("rewind")
@asset_options
@key_argument
@click.option(
    "--version", "--to-version", "version", type=VERSION, metavar="N", help="Restore this version."
)
@click.option(
    "--run-id",
    "--before-run",
    "run_id",
    type=ID,
    metavar="ID",
    help="Restore the value from before this run first wrote.",
)
@time_option
@click.option(
    "--dry-run", is_flag=True, is_eager=True, help="Only show what would be restored and undone."
)
@click.option(
    "--remove-data",
    is_flag=True,
    is_eager=True,
    help="Remove the directories of the undone loads, of this rewind and earlier ones.",
)
@yes_option_if(
    lambda given: given["remove_data"] and not given["dry_run"],
    "Do not ask for confirmation before data is removed; required in scripts.",
)
@json_option
def rewind(
    scope: AssetScope,
    key: str,
    version: int | None,
    run_id: str | None,
    at: datetime | None,
    dry_run: bool,
    remove_data: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Restore an old value of an asset's KEY.

    The value becomes a new version, and is printed. If KEY is the watermark of incremental loads,
    the loads that this undoes are listed: their rows are loaded again.
    """
    target = rewind_target(version, run_id, at)
    settings = load()
    removal = Removal()
    with open_store(settings) as store:
        worker = as_worker(store, settings)
        step = worker.execute(c.Rewind(scope, key, target, person(), dry_run=True))
        loads, undoing = [], Undoing([], [], 0)
        if store.supports(c.History):
            loads = run(worker, loads_of(scope, key))
            undoing = run(worker, undone_by(scope, key, loads, step)) or undoing
        if any(one.undone is None for one in loads):
            say(
                f"The loads that this undoes cannot be listed for `{key}`: its value is in the "
                "workers' storage (rewind where [workers] state_backend is configured), or was "
                "set manually and has no history."
            )
        left = (one for one in loads if one.undone and may_be_there(settings, one))
        earlier = list(left) if remove_data else []
        say_effect(undoing, earlier, dry_run, remove_data)
        if not dry_run:
            if remove_data and (undoing.undone or earlier):
                ask(f"Restore `{key}` of {scope} and remove these directories?", yes)
            step = store.execute(c.Rewind(scope, key, target, person()))
        if not as_json:
            say_step(step, f"`{key}` of {scope}", dry_run)
        if remove_data and not dry_run:
            # Only now it is certain which loads are undone: a load may have finished before the
            # rewind. Loads that an interrupted rewind has left are among them too.
            named = {one.version for one in undoing.undone}
            loads = run(worker, loads_of(scope, key))
            gone = [one for one in loads if one.undone or one.version in named]
            removal = remove(settings, gone)
    for directory in removal.removed:
        say(f"Removed {directory}.")
    if as_json:
        print_document(
            {
                "restored": document.of_version(step) if step else None,
                "dry_run": dry_run,
                "undone": [document.of_load(one) for one in undoing.undone],
                "removed": removal.removed,
            }
        )
    if removal.left:
        reasons = "; ".join(f"{directory}: {why}" for directory, why in removal.left.items())
        raise HoldfastError(
            f"{counted(len(removal.left), 'directory', 'directories')} of undone loads could "
            f"not be removed, so their rows will be there twice: {reasons}",
            hint="remove them manually, or run the same command again when the cause is fixed",
        )


def say_step(step: Version[str] | None, where: str, dry_run: bool) -> None:
    if step is None or step.value is None:
        say(f"{where} did not exist then; it {'would be' if dry_run else 'is'} deleted.")
    else:
        say(f"{'Would restore' if dry_run else 'Restored'} version {step.version} of {where}:")
        click.echo(document.cell(step.value))


def say_effect(undoing: Undoing, earlier: Sequence[Load], dry_run: bool, remove_data: bool) -> None:
    """Print the loads, and what to do with their data."""
    if undoing.undone:
        verb = "would be" if dry_run else "is" if len(undoing.undone) == 1 else "are"
        loads = counted(len(undoing.undone), "load", "loads")
        say(f"{loads} {verb} undone; the next loads load the rows again:")
        say_loads(undoing.undone)
    if earlier:
        say(
            f"{counted(len(earlier), 'load was', 'loads were')} undone by an earlier rewind and "
            "left data:"
        )
        say_loads(earlier)
    if undoing.revived:
        revived = counted(len(undoing.revived), "load", "loads")
        verb = "would count" if dry_run else "counts" if len(undoing.revived) == 1 else "count"
        say(
            f"{revived} that an earlier rewind has undone {verb} again. If their data was "
            "removed, its rows are missing: rewind to an earlier version instead."
        )
        say_loads(undoing.revived)
    if undoing.undone and not remove_data:
        say(
            "Remove their data, or its rows will be doubled: --remove-data removes "
            "directories. A write that replaces rows needs no removal."
        )
    if undoing.forgotten:
        more = counted(undoing.forgotten, "more load", "more loads")
        verb = "would be" if dry_run else "is" if undoing.forgotten == 1 else "are"
        say(f"{more} {verb} undone without a record; remove their data manually.")


def say_loads(loads: Sequence[Load]) -> None:
    for one in loads:
        record = one.record
        rows = "" if record.rows is None else f", {counted(record.rows, 'row', 'rows')}"
        start = "" if record.from_ is None else f"after {record.from_} "
        say(f"  {record.name}, {start}up to {record.to}{rows}")
        for directory in data_of(one):
            say(f"    {directory}")
        if not data_of(one):
            say("    no directory is recorded")
