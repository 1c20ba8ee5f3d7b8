"""`holdfast auth`: tokens for the server, and the key that signs them."""

from __future__ import annotations

import socket
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import click
import msgspec

from holdfast import commands as c
from holdfast.access.identity import Assets, TaskIdentity, UserIdentity, WorkerIdentity
from holdfast.cli.opening import open_store, person
from holdfast.cli.output import say
from holdfast.cli.parameter import MAP_INDEX
from holdfast.errors import InvalidInput, UnknownTaskInstance
from holdfast.model.duration import duration, duration_text
from holdfast.model.role import Role
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.portable.identifier import check_id
from holdfast.settings import Settings, load
from holdfast.store import Store

if TYPE_CHECKING:
    from holdfast.server.tokens import Tokens


class Duration(click.ParamType[timedelta]):
    name = "duration"

    def convert(
        self,
        value: str | timedelta,
        param: click.Parameter | None,
        ctx: click.Context | None,
    ) -> timedelta:
        try:
            return value if isinstance(value, timedelta) else duration(value)
        except ValueError:
            self.fail(f"{value!r} is not a duration such as 30s, 5m, 1h or 7d.", param, ctx)


@click.group("auth")
def command() -> None:
    """Tokens for the server, and the key that they are signed with."""


@command.command("task-token")
@click.option("--dag-id", required=True, metavar="ID", help="DAG of the task instance.")
@click.option("--run-id", required=True, metavar="ID", help="Run of the task instance.")
@click.option("--task-id", required=True, metavar="ID", help="Task of the task instance.")
@click.option(
    "--map-index",
    type=MAP_INDEX,
    default=-1,
    metavar="N",
    help="Index of a mapped task instance; -1, the default, where it is not mapped.",
)
@click.option("--asset", "names", multiple=True, metavar="NAME", help="An asset that it may use.")
@click.option(
    "--asset-uri", "uris", multiple=True, metavar="URI", help="An asset that it may use, by URI."
)
@click.option(
    "--lifetime", type=Duration(), help="How long it is good for; [api] token_lifetime if not said."
)
def task_token(
    dag_id: str,
    run_id: str,
    task_id: str,
    map_index: int,
    names: tuple[str, ...],
    uris: tuple[str, ...],
    lifetime: timedelta | None,
) -> None:
    """Print a token for a worker of your own, as one line of JSON.

    It is good for the attempt of the task instance that is under way, and for the assets that are
    named. Where there is none, an attempt is begun; a task instance that is not known is registered
    as part of an external run.
    """
    settings = load()
    tokens = _tokens(settings)
    scope = TaskScope(dag_id, run_id, task_id, map_index)
    scopes = [AssetScope(name=name) for name in names] + [AssetScope(uri=uri) for uri in uris]
    with open_store(settings) as store:
        found = [store.execute(c.GetAsset(asset)) for asset in scopes]
        assets: Assets = tuple((asset.name, asset.uri) for asset in found)
        attempt = _live_attempt(store, scope)
    token = tokens.issue(TaskIdentity(scope, attempt, assets), _checked(lifetime))
    document = {
        "ti_id": scope.ti_text,
        "token": token,
        "attempt": attempt,
        "expires_at": datetime.fromtimestamp(tokens.verify(token).expires_at, UTC),
    }
    click.echo(msgspec.json.encode(document))


@command.command("user-token")
@click.option(
    "--role",
    required=True,
    type=click.Choice([role.value for role in Role]),
    help="What may be done with it: read, write entries and start runs, or everything.",
)
@click.option("--user", metavar="NAME", help="Whose writes they are; yours if not said.")
@click.option(
    "--lifetime", type=Duration(), default="30d", show_default=True, help="How long it is good for."
)
def user_token(role: str, user: str | None, lifetime: timedelta) -> None:
    """Print a token for a person or tool."""
    name = person().user if user is None else user
    check_id("--user", name)
    click.echo(_tokens(load()).issue(UserIdentity(name, Role(role)), _checked(lifetime)))


@command.command("worker-token")
@click.option("--name", metavar="NAME", help="What logs call the worker; this machine's name.")
@click.option(
    "--lifetime", type=Duration(), default="30d", show_default=True, help="How long it is good for."
)
def worker_token(name: str | None, lifetime: timedelta) -> None:
    """Print a token for a worker, which runs attempts and watchers of any DAG."""
    name = socket.gethostname() if name is None else name
    check_id("--name", name)
    click.echo(_tokens(load()).issue(WorkerIdentity(name), _checked(lifetime)))


@command.command("rotate-key")
@click.option(
    "--overlap",
    type=Duration(),
    default="1d",
    show_default=True,
    help="How long tokens that older keys have signed are still accepted; 0: not at all.",
)
def rotate_key(overlap: timedelta) -> None:
    """Sign tokens with a new key from now on. Running servers take it up by themselves."""
    _check_packages()
    from holdfast.server.keys import rotate

    rotate(load(), overlap)
    rest = f"for {duration_text(overlap)} more" if overlap else "no more"
    say(f"Tokens are signed with a new key. Those of older keys are accepted {rest}.")


def _live_attempt(store: Store, scope: TaskScope) -> int:
    try:
        attempts = store.execute(c.ListAttempts(scope))
    except UnknownTaskInstance:
        store.execute(c.RegisterTask(scope))
        attempts = ()
    if attempts and attempts[-1].ended_at is None:
        return attempts[-1].number
    return store.execute(c.StartAttempt(scope))


def _tokens(settings: Settings) -> Tokens:
    _check_packages()
    from holdfast.server.tokens import open_tokens

    return open_tokens(settings)


def _check_packages() -> None:
    from holdfast.server.packages import check

    check()


def _checked(lifetime: timedelta | None) -> timedelta | None:
    if lifetime is not None and not lifetime:
        raise InvalidInput("--lifetime is 0", hint="write 30s, 5m, 1h or 7d")
    return lifetime
