"""`holdfast state-store leftovers`: files of appends to a lake table that were never committed."""

from __future__ import annotations

from datetime import timedelta

import click

from holdfast.cli.output import counted, json_option, print_document, print_table, say
from holdfast.cli.parameter import Duration
from holdfast.cli.question import ask, yes_option_if
from holdfast.model.duration import duration_text


@click.command("leftovers")
@click.argument("table", metavar="TABLE")
@click.option(
    "--catalog",
    metavar="NAME",
    help="Catalog of an Iceberg table, in PyIceberg's configuration; without it, TABLE is the path "
    "or URL of a Delta table.",
)
@click.option(
    "--delete", is_flag=True, is_eager=True, help="Delete leftovers older than the grace period."
)
@click.option(
    "--grace",
    default="7d",
    show_default=True,
    type=Duration(),
    help="Minimum age of a leftover: 5m, 1h or 7d. It must be longer than any append takes.",
)
@yes_option_if(lambda given: given["delete"])
@json_option
def leftovers(
    table: str, catalog: str | None, delete: bool, grace: timedelta, yes: bool, as_json: bool
) -> None:
    """List files that appends to TABLE have left without committing them.

    TABLE is a Delta table, or with --catalog an Iceberg table: namespace.name. Files that any
    version or snapshot of the table names are never listed or deleted. Credentials come from the
    environment.
    """
    from holdfast.spark.lake.delta import delta
    from holdfast.spark.lake.iceberg import iceberg
    from holdfast.spark.lake.leftovers import delete_leftovers
    from holdfast.spark.lake.leftovers import leftovers as found_in

    lake = delta(table) if catalog is None else iceberg(table, catalog=catalog)
    places = found_in(lake, grace)
    files = sum(len(place.files) for place in places)
    if not as_json:
        if places:
            rows = [
                (
                    place.path,
                    f"{len(place.files):,}",
                    f"{place.size:,}",
                    duration_text(timedelta(seconds=int(place.age.total_seconds()))),
                )
                for place in places
            ]
            print_table(("place", "files", "bytes", "age"), rows)
        else:
            say(f"{lake.name} has no leftovers older than {duration_text(grace)}.")
    deleted = None
    if delete and places:
        size = f"{sum(place.size for place in places):,} bytes"
        ask(f"Delete {counted(files, 'file', 'files')} of {size} from {lake.name}?", yes)
        deleted = len(delete_leftovers(lake, places))
        say(f"Deleted {counted(deleted, 'file', 'files')}.")
    if as_json:
        print_document(
            {
                "table": table,
                "grace": duration_text(grace),
                "places": [
                    {
                        "place": place.path,
                        "files": len(place.files),
                        "bytes": place.size,
                        "committed_files": place.named,
                        "age_seconds": int(place.age.total_seconds()),
                    }
                    for place in places
                ],
                "deleted": deleted,
            }
        )
