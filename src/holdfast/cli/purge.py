"""`holdfast state-store purge`: delete the objects that nothing refers to any more."""

from __future__ import annotations

import click

from holdfast import commands as c
from holdfast.cli.opening import open_store
from holdfast.cli.output import counted, json_option, print_document, say
from holdfast.cli.scope import part_options
from holdfast.errors import BackendFailed, InvalidSettings
from holdfast.model.scope import StoreScope
from holdfast.portable.identifier import one_line
from holdfast.settings import load
from holdfast.store import Store
from holdfast.stores.offload.configuration import Offloading


@click.command("purge")
@part_options
@click.option("--dry-run", is_flag=True, help="Only say how many there are.")
@json_option
def purge(scope: StoreScope | None, dry_run: bool, as_json: bool) -> None:
    """Delete objects in the workers' storage that nothing names any more.

    Whatever removes or replaces the last reference to an object queues it. Workers empty the queue
    as they run; this does it now, where the storage's credentials are: all of it, or what one task
    instance or asset has left. What could not be deleted before is tried at once. What cannot be
    deleted is tried again later, and the command's exit status is 1.
    """
    settings = load()
    with open_store(settings) as store:
        gone = 0
        if not dry_run:
            gone = _deleted(Offloading.of(settings), store, scope)
        queue = store.execute(c.CountPurges(c.Part(scope)))
    if as_json:
        print_document(
            {
                "deleted": gone,
                "waiting": queue.waiting,
                "failing": queue.failing,
                "reserved": queue.reserved,
                "error": queue.error,
            }
        )
    else:
        if not dry_run:
            say(f"Deleted {counted(gone, 'object', 'objects')}.")
        say(f"{counted(queue.waiting, 'object', 'objects')} to delete, {queue.reserved} reserved.")
    if queue.failing and not dry_run:
        raise BackendFailed(
            f"{counted(queue.failing, 'object', 'objects')} could not be deleted: "
            f"{one_line(queue.error)}",
            hint="each is tried again later; `holdfast state-store purge --dry-run` counts them",
        )


def _deleted(offloading: Offloading, store: Store, scope: StoreScope | None) -> int:
    if not offloading.backend:
        raise InvalidSettings(
            "workers.state_backend is empty: there is no storage to delete objects from",
            hint="run this where the workers' settings and credentials are",
        )
    offload = offloading.opened(store)
    done = offload.purge(scope=scope, retry=True)
    total = done.gone
    while done.more:
        done = offload.purge(scope=scope)
        total += done.gone
    return total
