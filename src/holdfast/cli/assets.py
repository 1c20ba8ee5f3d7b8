"""`holdfast assets`: the datasets that DAGs name, their events and their loads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import click

from holdfast import commands as c
from holdfast.actions.loads import Load, loads_of
from holdfast.cli import document
from holdfast.cli.document import as_written
from holdfast.cli.opening import as_worker, open_store
from holdfast.cli.output import (
    json_option,
    print_document,
    print_facts,
    print_table,
    say,
    time_text,
    when,
)
from holdfast.cli.parameter import limit_option
from holdfast.cli.question import ask, yes_option
from holdfast.errors import NotSupported
from holdfast.model import run_presentation
from holdfast.model.entry import AssetInfo
from holdfast.model.run import AssetEvent
from holdfast.model.scope import AssetScope
from holdfast.model.value import check_key
from holdfast.settings import load
from holdfast.store import run

EVENTS_SHOWN = 10


@click.group("assets")
def command() -> None:
    """List, show and delete assets."""


@command.command("list")
@json_option
def list_assets(as_json: bool) -> None:
    """List assets with the DAGs that declare them."""
    with open_store(load()) as store:
        assets = store.execute(c.ListAssets())
        found = [
            (asset, store.execute(c.ListAssetEvents(asset.scope, limit=1))) for asset in assets
        ]
    if as_json:
        documents = [of_asset(asset, events) for asset, events in found]
        print_document({"assets": documents, "total_entries": len(found)})
    elif found:
        print_table(
            ("asset", "uri", "dags", "active", "last event"),
            [
                (
                    asset.name,
                    asset.uri,
                    declared_by(asset),
                    "no" if asset.orphaned_at else "yes",
                    when(events[0].at if events else None),
                )
                for asset, events in found
            ],
        )
    else:
        say("There are no assets.")


@command.command("show")
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show an asset with its entries and last events."""
    with open_store(load()) as store:
        asset = store.execute(c.GetAsset(AssetScope(name=name)))
        events = store.execute(c.ListAssetEvents(asset.scope, EVENTS_SHOWN))
        listable = store.supports(c.List)
        entries = store.execute(c.List(asset.scope)).found if listable else ()
    if as_json:
        print_document(
            {
                **of_asset(asset, events),
                "entries": [document.of_entry(found.scope, found.entry) for found in entries],
                "asset_events": [of_event(event) for event in events],
            }
        )
        return
    print_facts(
        {
            "asset": asset.name,
            "uri": asset.uri,
            "dags": declared_by(asset),
            "inactive since": when(asset.orphaned_at),
        }
    )
    if not listable:
        say("The configured backend cannot list entries.")
    if entries:
        print_table(
            ("key", "value", "version", "updated", "writer"),
            [
                (
                    found.entry.key,
                    document.cell(found.entry.value),
                    str(found.entry.version),
                    time_text(found.entry.updated_at),
                    str(found.entry.writer),
                )
                for found in entries
            ],
        )
    if events:
        print_events(events)


@command.command("events")
@click.option("--asset", "name", metavar="NAME", help="Only events of this asset.")
@limit_option
@json_option
def list_events(name: str | None, limit: int, as_json: bool) -> None:
    """List the changes of assets, newest first."""
    with open_store(load()) as store:
        scope = None if name is None else AssetScope(name=name)
        listing = c.ListAssetEvents(scope, limit)
        events = store.execute(listing)
        total = store.execute(c.Count(listing)) if as_json else 0
    if as_json:
        documents = [of_event(event) for event in events]
        print_document({"asset_events": documents, "total_entries": total})
    elif events:
        print_events(events)
    else:
        say("There are no events.")


@command.command("loads")
@click.argument("name")
@click.option("--key", metavar="KEY", help="Only loads of the watermark under this key.")
@limit_option
@json_option
def list_loads(name: str, key: str | None, limit: int, as_json: bool) -> None:
    """List the incremental loads of an asset, newest first.

    Loads are recorded as far back as the history of its entries goes.
    """
    if key is not None:
        check_key(key)
    settings = load()
    with open_store(settings) as store:
        asset = store.execute(c.GetAsset(AssetScope(name=name)))
        if key is None and not store.supports(c.List):
            raise NotSupported(
                "the configured backend cannot list entries, so it cannot find the loads of an "
                "asset",
                hint="name the watermark's key: --key watermark",
            )
        loads = run(as_worker(store, settings), loads_of(asset.scope, key))
    if as_json:
        shown = [document.of_load(one) for one in loads[:limit]]
        print_document({"loads": shown, "total_entries": len(loads)})
    elif loads:
        print_loads(loads[:limit])
    else:
        where = f"`{key}` of asset `{name}`" if key else f"Asset `{name}`"
        say(f"{where} has no recorded loads.")


@command.command("delete")
@click.argument("name")
@yes_option
@json_option
def delete(name: str, yes: bool, as_json: bool) -> None:
    """Delete an asset with its entries and their history.

    A DAG that declares the asset registers it again, empty, when its file is next read.
    """
    with open_store(load()) as store:
        asset = store.execute(c.GetAsset(AssetScope(name=name)))
        ask(f"Delete asset `{name}` with its entries, their history and its events?", yes)
        store.execute(c.DeleteAsset(asset.scope))
    say(f"Deleted asset `{name}`.")
    if as_json:
        print_document({"deleted": 1})


_STATES: Final = {True: "undone", False: "current", None: "unknown"}


def print_loads(loads: Sequence[Load]) -> None:
    print_table(
        (
            *("key", "number", "kind", "state", "from", "to", "rows", "seconds", "started"),
            *("ended", "writer", "checks", "directories"),
        ),
        [
            (
                one.key,
                str(one.record.number),
                one.record.kind,
                _STATES[one.is_void],
                _text(one.record.from_),
                _text(one.record.to),
                _text(one.record.rows),
                f"{one.record.seconds:.1f}",
                one.record.started_at,
                time_text(one.updated_at),
                str(one.writer),
                ", ".join(f"{check}: {rows}" for check, rows in one.record.checks.items()),
                ", ".join(one.record.directories),
            )
            for one in loads
        ],
    )


def _text(value: str | int | None) -> str:
    return "" if value is None else str(value)


def print_events(events: Sequence[AssetEvent]) -> None:
    print_table(
        ("asset", "event", "at", "from", "extra"),
        [
            (
                event.asset.name or "",
                str(event.number),
                time_text(event.at),
                str(event.source or "watcher"),
                event.extra if event.extra != "{}" else "",
            )
            for event in events
        ],
    )


def declared_by(asset: AssetInfo) -> str:
    return ", ".join((*asset.dags, *(("by hand",) if asset.by_hand else ())))


def of_asset(asset: AssetInfo, events: Sequence[AssetEvent]) -> dict[str, Any]:
    """Return an asset in the form that `--json` prints, with the time of its newest event."""
    newest = events[0].at if events else None
    return run_presentation.of_asset(asset) | {"last_event_at": newest}


def of_event(event: AssetEvent) -> dict[str, Any]:
    return run_presentation.of_event(event, as_written)
