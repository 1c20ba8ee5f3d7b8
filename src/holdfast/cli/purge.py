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
@click.option("--dry-run", is_flag=True, help="Only count the queued objects.")
@json_option
def purge(scope: StoreScope | None, dry_run: bool, as_json: bool) -> None:
    """Delete objects in the workers' storage that nothing refers to any more.

    An object is queued for deletion when its last reference is removed or replaced. Workers process
    the queue as they run; this command processes it now, and needs the storage's credentials: all
    of it, or the objects of one task instance or asset. Objects that could not be deleted before
    are retried at once. If an object cannot be deleted, it is retried later, and the exit status is
    1.
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
        say(
            f"{counted(queue.waiting, 'object', 'objects')} queued for deletion, "
            f"{queue.reserved} reserved."
        )
    if queue.failing and not dry_run:
        raise BackendFailed(
            f"{counted(queue.failing, 'object', 'objects')} could not be deleted: "
            f"{one_line(queue.error)}",
            hint="each is retried later; `holdfast state-store purge --dry-run` counts them",
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
