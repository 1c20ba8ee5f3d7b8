"""Output: data to stdout, as a table, lines or JSON, and messages to stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

import click
import msgspec

from holdfast.portable.identifier import escaped_lines

json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def say(text: str) -> None:
    """Print a message for the person at the terminal."""
    click.echo(text, err=True)


def print_document(data: Any) -> None:
    """Print one JSON document."""
    click.echo(msgspec.json.format(msgspec.json.encode(data), indent=2))


def print_items_document(head: dict[str, Any], name: str, items: Iterable[Any]) -> None:
    """Print one JSON document with a list of items, streamed as they come: there may be more of
    them than fit into memory. Their number comes last."""
    text = msgspec.json.encode(head).decode()
    click.echo(f'{text[:-1]},"{name}":[', nl=False)
    count = 0
    for count, item in enumerate(items, start=1):
        sys.stdout.write(f"{',' if count > 1 else ''}\n{msgspec.json.encode(item).decode()}")
    click.echo(f'\n],"count":{count}}}')


def print_lines(lines: Iterable[str]) -> int:
    """Print each line as it comes; return their number."""
    count = 0
    for line in lines:
        sys.stdout.write(line + "\n")
        count += 1
    sys.stdout.flush()
    return count


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on a terminal; elsewhere, lines with tabs between the columns."""
    if sys.stdout.isatty():
        print_rich_table(columns, rows)
    else:
        print_lines("\t".join(map(_on_one_line, row)) for row in [columns, *rows])


def _on_one_line(cell: str) -> str:
    return escaped_lines(cell).replace("\n", "\\n").replace("\t", "\\t")


def print_rich_table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, overflow="fold")
    for row in rows:
        table.add_row(*(escaped_lines(shortened(cell)) for cell in row))
    # Keys and values are printed verbatim, without rich's markup.
    Console(markup=False, emoji=False, highlight=False).print(table)


def print_facts(facts: dict[str, str]) -> None:
    """Print the facts about one object that are not empty: a name and a value on each line, in
    columns on a terminal, with a tab between them elsewhere."""
    known = {name: escaped_lines(value) for name, value in facts.items() if value}
    if not sys.stdout.isatty():
        print_lines(f"{name}\t{value}" for name, value in known.items())
        return
    width = max(len(name) for name in known) + 2
    print_lines(f"{name:{width}}{shortened(value)}" for name, value in known.items())
    click.echo()


def shortened(cell: str) -> str:
    """Return the beginning of a long value, for a terminal."""
    return cell if len(cell) <= 200 else cell[:199] + "…"


def counted(count: int, one: str, many: str) -> str:
    return f"{count:,} {one if count == 1 else many}"


def time_text(time: datetime | None, absent: str = "never") -> str:
    return f"{time.astimezone(UTC):%Y-%m-%d %H:%M:%SZ}" if time else absent


def when(time: datetime | None) -> str:
    """Return a time as text; empty for None."""
    return time_text(time, "")
