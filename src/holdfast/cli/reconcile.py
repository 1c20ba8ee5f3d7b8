"""`holdfast state-store reconcile`: compare the workers' storage with the store."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click
import msgspec

from holdfast import commands as c
from holdfast.cli.opening import open_store
from holdfast.cli.output import counted, json_option, print_document, print_table, say
from holdfast.cli.parameter import Duration
from holdfast.cli.question import ask, yes_option_if
from holdfast.cli.scope import part_options
from holdfast.errors import InvalidInput, InvalidSettings, NotSupported, ObjectMissing
from holdfast.model.duration import duration_text
from holdfast.model.scope import AssetScope, StoreScope
from holdfast.settings import Settings, load
from holdfast.store import Store

if TYPE_CHECKING:
    from holdfast.spark.reconcile.comparison import Comparison
    from holdfast.spark.reconcile.deletion import Deletion
    from holdfast.spark.reconcile.summary import Summary
    from holdfast.stores.offload.objects.backend import ObjectStoreBackend


@click.command("reconcile")
@click.option(
    "--delete", is_flag=True, is_eager=True, help="Delete orphans older than the grace period."
)
@click.option(
    "--grace",
    default="7d",
    show_default=True,
    type=Duration(zero=True),
    help="Minimum age of an object to be deleted: 30s, 5m, 1h or 7d.",
)
@click.option(
    "--report",
    metavar="DIR",
    help="Directory for the report, as Parquet; by default under [core] home.",
)
@part_options
@yes_option_if(lambda given: given["delete"])
@json_option
def reconcile(
    scope: StoreScope | None,
    delete: bool,
    grace: timedelta,
    report: str | None,
    yes: bool,
    as_json: bool,
) -> None:
    """Compare the objects in the workers' storage with the references to them, on Spark.

    All objects are compared, or those of one task instance or asset. Pipelines may run meanwhile.
    The exit status is 1 if a reference has no object.
    """
    settings = load()
    backend = storage(settings)
    directory = report_directory(settings, report)
    with open_store(settings) as store:
        # A store that cannot be scanned raises before Spark is started.
        store.execute(c.PlanScan("task_references", 1, 1))
        scope = _known(store, scope)
        from holdfast.spark.reconcile.comparison import Comparison
        from holdfast.spark.session.maintenance import maintenance_session
        from holdfast.spark.source.registration import register

        with maintenance_session(settings) as spark:
            register(spark)
            comparison = Comparison(spark, backend, directory, grace, scope)
            comparison.list_objects()
            comparison.read_references()
            summary = comparison.compare()
            if not as_json:
                print_summary(summary, backend.url, directory)
            deletion = None
            if delete and summary.orphan.objects:
                orphans = counted(summary.orphan.objects, "orphan", "orphans")
                size = f"{summary.orphan.bytes:,} bytes"
                ask(f"Delete {orphans} of {size}, older than {duration_text(grace)}?", yes)
                deletion = delete_orphans(comparison, backend, store, scope)
    if as_json:
        found = {"url": backend.url, "report": directory, "grace": duration_text(grace)}
        print_document(found | msgspec.structs.asdict(summary) | {"deletion": deletion})
    if summary.missing:
        raise ObjectMissing(
            f"{counted(summary.missing, 'reference has', 'references have')} no object: "
            f"{'its value is' if summary.missing == 1 else 'their values are'} lost",
            hint=f"{directory}/missing lists the entries; restore the objects from a backup, or "
            "set those keys again",
        )


def _known(store: Store, scope: StoreScope | None) -> StoreScope | None:
    """Return the scope, an asset by its name. Raise an error where the store does not know it."""
    if isinstance(scope, AssetScope):
        return AssetScope(name=store.execute(c.GetAsset(scope)).name)
    if scope is not None:
        store.execute(c.List(scope, limit=0))
    return scope


def delete_orphans(
    comparison: Comparison, backend: ObjectStoreBackend, store: Store, scope: StoreScope | None
) -> Deletion:
    from holdfast.spark.reconcile.deletion import delete
    from holdfast.stores.offload.store import OffloadStore

    done = delete(comparison.orphans(), backend, OffloadStore(store, backend), scope)
    say(f"Deleted {counted(done.deleted, 'object', 'objects')}.")
    if done.failed:
        say(f"{done.failed:,} could not be deleted; the purge queue retries them.")
    if done.unclear:
        say(f"{done.unclear:,} were not deleted: their owners are not known.")
    return done


def storage(settings: Settings) -> ObjectStoreBackend:
    """Return the workers' storage. Raise an error unless it can be listed from other processes."""
    from holdfast.stores.backend.base import load_backend
    from holdfast.stores.offload.objects.backend import ObjectStoreBackend

    name = settings.workers.state_backend
    if not name:
        raise InvalidSettings(
            "there is no storage to reconcile: [workers] state_backend is not set",
            hint='set `state_backend = "holdfast.sdk.state.ObjectStoreBackend"` to offload '
            "values; without it they are in the database",
        )
    backend = load_backend(name, {ObjectStoreBackend: settings.object_store})
    if not isinstance(backend, ObjectStoreBackend):
        raise NotSupported(
            f"{name} cannot be reconciled: it cannot list its objects",
            hint="use a backend that can, such as `holdfast.sdk.state.ObjectStoreBackend`",
        )
    if backend.url.startswith("memory:"):
        raise NotSupported(
            f"{backend.url} cannot be reconciled: it is in the memory of each worker",
            hint="set [object_store] url to persistent storage",
        )
    return backend


def report_directory(settings: Settings, given: str | None) -> str:
    """Return the directory for the report, which Spark can write to. Raise InvalidInput where it is
    not empty, or other machines cannot reach it."""
    if given is None:
        if not (settings.spark.master or "local").startswith("local"):
            raise InvalidInput(
                "Spark runs on other machines, which write the report",
                hint="name a directory that all of them can reach: --report "
                "s3a://bucket/reports/today",
            )
        now = datetime.now(UTC)
        return str((settings.home / "reconcile" / f"{now:%Y-%m-%dT%H-%M-%S-%fZ}").absolute())
    if "://" in given:
        return given.rstrip("/")
    directory = os.path.abspath(given)
    if os.path.exists(directory) and (not os.path.isdir(directory) or os.listdir(directory)):
        raise InvalidInput(f"--report {given} is not empty", hint="name a new directory")
    return directory


def print_summary(summary: Summary, url: str, directory: str) -> None:
    states = {
        "referenced": summary.named,
        "queued or reserved": summary.queued,
        "orphans": summary.orphan,
        "orphans within the grace period": summary.young,
        "foreign files": summary.foreign,
    }
    say(f"Objects under {url}:")
    print_table(
        ("what", "objects", "bytes"),
        [(what, f"{size.objects:,}", f"{size.bytes:,}") for what, size in states.items()],
    )
    largest = [
        (kind, part.name, f"{part.objects:,}", f"{part.bytes:,}")
        for kind, parts in (("dag", summary.dags), ("asset", summary.assets))
        for part in parts
    ]
    if largest:
        print_table(("of", "name", "objects", "bytes"), largest)
    if summary.elsewhere:
        say(f"{summary.elsewhere:,} references point to other storage, and were not checked.")
    say(f"The report is in {directory}.")
