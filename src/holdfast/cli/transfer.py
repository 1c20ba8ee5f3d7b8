"""`holdfast state-store export`, `import` and `copy`: entries as Parquet, and to another store."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from holdfast.cli.opening import open_connection
from holdfast.cli.output import counted, json_option, print_document, say
from holdfast.cli.question import ask, yes_option
from holdfast.cli.scope import filter_options
from holdfast.commands import Where
from holdfast.errors import InvalidInput
from holdfast.settings import load

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.connection import Connection
    from holdfast.portable.source.location import Location
    from holdfast.spark.transfer.checksum import Total

_resolve_option = click.option(
    "--resolve",
    is_flag=True,
    help="Fetch values that a worker-side backend has offloaded. By default references are "
    "written, which are valid as long as their objects exist.",
)
_declare_option = click.option(
    "--declare", is_flag=True, help="Declare assets that the target does not know."
)
_directory_argument = click.argument("directory", metavar="DIR")


@click.command("export")
@_directory_argument
@filter_options
@_resolve_option
@click.option("--yes", is_flag=True, help="Overwrite a finished export without confirmation.")
@json_option
def export_command(directory: str, where: Where, resolve: bool, yes: bool, as_json: bool) -> None:
    """Write entries to Parquet files in DIR.

    Without a filter the whole store is exported. Values, versions, times and writers are written;
    expired entries and the history of assets are not. An export that was killed resumes when it is
    started again. DIR is a path, or a URL that Spark can write to.
    """
    with _spark() as (spark, connection, _):
        from holdfast.spark.transfer.exporting import export_entries
        from holdfast.spark.transfer.filter import selected

        manifest = export_entries(
            *(spark, connection, directory, selected(where)),
            resolve=resolve,
            agree=lambda question: _ask_to_overwrite(question, yes),
            say=say,
        )
    if manifest is None:
        _say_nothing(as_json, "exported")
        return
    if as_json:
        print_document(manifest)
    for name, table in manifest.tables.items():
        say(f"Exported {_entries(table.count)} of {name}, checksum {table.checksum}.")


@click.command("import")
@_directory_argument
@filter_options
@_declare_option
@yes_option
@json_option
def import_command(directory: str, where: Where, declare: bool, yes: bool, as_json: bool) -> None:
    """Write an export in DIR into the configured store.

    Without a filter the whole export is imported; with one, the matching entries. The import is
    refused before anything is written if files are missing or were changed. Expired entries are
    skipped, entries with the same key are overwritten, and afterwards all are read back and
    compared. Versions, times of writing, writers and history are not imported: the store assigns
    its own. An import that was killed resumes when it is started again.
    """
    with _spark() as (spark, connection, location):
        from holdfast.spark.transfer.importing import import_entries

        totals = import_entries(
            *(spark, connection, location, directory, where),
            declare=declare,
            agree=lambda question: ask(question, yes),
            say=say,
        )
    _print_totals("Imported", totals, as_json)


@click.command("copy")
@click.option(
    "--to",
    "url",
    required=True,
    metavar="URL",
    help="A migrated database, or a server, with an editor's token in HOLDFAST_TOKEN.",
)
@filter_options
@_resolve_option
@_declare_option
@yes_option
@json_option
def copy_command(
    url: str, where: Where, resolve: bool, declare: bool, yes: bool, as_json: bool
) -> None:
    """Write entries of the configured store to another one.

    Without a filter the whole store is copied. Entries with the same key are overwritten there, and
    afterwards all are read back and compared. Versions, times of writing, writers and history are
    not copied: the other store assigns its own. A copy that was killed resumes when it is started
    again.
    """
    from holdfast.portable.source.location import configured, locate

    target = locate({"url": url}, configured())
    with _spark() as (spark, connection, _):
        from holdfast.spark.transfer.copying import copy_entries
        from holdfast.spark.transfer.filter import selected

        totals = copy_entries(
            *(spark, connection, target, selected(where)),
            resolve=resolve,
            declare=declare,
            agree=lambda question: ask(question, yes),
            say=say,
        )
    if totals is None:
        _say_nothing(as_json, "copied")
    else:
        _print_totals("Copied", totals, as_json)


@contextmanager
def _spark() -> Iterator[tuple[SparkSession, Connection, Location]]:
    """Yield Spark with the configured store registered, the store's connection and location."""
    from holdfast.spark.session.maintenance import maintenance_session

    settings = load()
    with (
        _remarks(),
        open_connection(settings) as connection,
        maintenance_session(settings) as spark,
    ):
        from holdfast.portable.source.location import configured
        from holdfast.spark.transfer.source import register_kept
        from holdfast.stores.offload.configuration import Offloading

        location = configured()
        register_kept(spark, location, Offloading.of(settings))
        yield spark, connection, location


@contextmanager
def _remarks() -> Iterator[None]:
    """Print log messages about checkpointed work meanwhile."""
    log, handler = logging.getLogger("holdfast"), logging.StreamHandler()
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.setLevel(level)
        log.removeHandler(handler)


def _ask_to_overwrite(question: str, yes: bool) -> None:
    if not yes and not sys.stdin.isatty():
        raise InvalidInput(question.partition(". ")[0], hint="name another directory, or add --yes")
    ask(question, yes)


def _say_nothing(as_json: bool, done: str) -> None:
    say(f"There are no matching entries; nothing was {done}.")
    if as_json:
        print_document({"tables": {}})


def _print_totals(done: str, totals: Mapping[str, Total], as_json: bool) -> None:
    if as_json:
        print_document({"tables": totals})
    for name, total in totals.items():
        say(f"{done} {_entries(total.count)} of {name}, checksum {total.checksum}.")


def _entries(count: int) -> str:
    return counted(count, "entry", "entries")
