"""`holdfast pools`: limits on what runs at once, shared by all schedulers."""

from __future__ import annotations

import click

from holdfast import commands as c
from holdfast.actions.pools import get_pool
from holdfast.cli.opening import open_store
from holdfast.cli.output import counted, json_option, print_document, print_table, say
from holdfast.cli.parameter import ID
from holdfast.cli.question import ask, yes_option
from holdfast.model.pool import NO_LIMIT
from holdfast.model.run_presentation import of_pool
from holdfast.portable.identifier import one_line
from holdfast.settings import load
from holdfast.store import run


@click.group("pools")
def command() -> None:
    """List, create, change and delete pools."""


@command.command("list")
@json_option
def list_pools(as_json: bool) -> None:
    """List pools with their slots."""
    with open_store(load()) as store:
        pools = store.execute(c.ListPools())
    if as_json:
        print_document({"pools": [of_pool(one) for one in pools], "total_entries": len(pools)})
        return
    print_table(
        ("pool", "slots", "used", "free", "description"),
        [
            (
                *(one.name, slots_text(one.slots), str(one.used), slots_text(one.free)),
                one_line(one.description),
            )
            for one in pools
        ],
    )


@command.command("set", context_settings={"ignore_unknown_options": True})  # for -1
@click.argument("name", type=ID)
@click.argument("slots", type=click.IntRange(NO_LIMIT, c.MOST_SLOTS))
@click.option("--description", metavar="TEXT", help="What the pool protects.")
@json_option
def set_pool(name: str, slots: int, description: str | None, as_json: bool) -> None:
    """Create a pool, or change its SLOTS; -1 for no limit.

    Tasks that run continue, even where the pool is now too small for them.
    """
    with open_store(load()) as store:
        pool = store.execute(c.SetPool(name=name, slots=slots, description=description))
    if pool.slots == NO_LIMIT:
        say(f"Pool `{name}` has no limit.")
    else:
        say(f"Pool `{name}` has {counted(slots, 'slot', 'slots')}, {pool.used} in use.")
    if as_json:
        print_document(of_pool(pool))


@command.command("delete")
@click.argument("name", type=ID)
@yes_option
@json_option
def delete(name: str, yes: bool, as_json: bool) -> None:
    """Delete a pool. Tasks that name it wait until there is one of that name again."""
    with open_store(load()) as store:
        run(store, get_pool(name))
        ask(f"Delete pool `{name}`? Tasks that name it will wait.", yes)
        store.execute(c.DeletePool(name))
    say(f"Deleted pool `{name}`.")
    if as_json:
        print_document({"deleted": 1})


def slots_text(slots: int | None) -> str:
    return "no limit" if slots in (None, NO_LIMIT) else str(slots)
