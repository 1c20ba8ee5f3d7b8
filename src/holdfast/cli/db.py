"""`holdfast db`: the schema of the database."""

from __future__ import annotations

import click

from holdfast.cli.output import say
from holdfast.cli.question import ask, yes_option
from holdfast.errors import SchemaMismatch
from holdfast.settings import load


@click.group("db")
def command() -> None:
    """Migrate and check the schema of the database."""


@command.command("migrate")
def migrate() -> None:
    """Upgrade the schema. The embedded database is upgraded automatically."""
    from holdfast.stores.sql import schema

    before, after = schema.migrate(load().database_url)
    if before == after:
        say(f"The database is up to date, at revision {after}.")
    else:
        say(f"Migrated the database from {before or 'nothing'} to revision {after}.")


@command.command("check")
def check() -> None:
    """Check whether the schema is up to date; the exit status is 1 if it is not."""
    from holdfast.stores.sql import schema

    current, head = schema.check(load().database_url)
    if current != head:
        raise SchemaMismatch(
            f"the database is at revision {current or 'nothing'}; this version needs {head}",
            hint="run `holdfast db migrate`",
        )
    say(f"The database is up to date, at revision {head}.")


@command.command("downgrade")
@click.argument("revision")
@yes_option
def downgrade(revision: str, yes: bool) -> None:
    """Downgrade the schema to REVISION; `base` removes all tables."""
    from holdfast.stores.sql import schema

    ask(f"Downgrade the database to {revision}? Data that only the newer schema has is lost.", yes)
    before, after = schema.downgrade(load().database_url, revision)
    say(f"Downgraded the database from {before or 'nothing'} to {after or 'nothing'}.")
