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
from holdfast.cli.parameter import ID, MAP_INDEX, Duration
from holdfast.errors import InvalidSettings, UnknownTaskInstance
from holdfast.model.duration import duration_text
from holdfast.model.role import Role
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.portable.identifier import check_id
from holdfast.server import packages
from holdfast.settings import Settings, load, without_password
from holdfast.store import Store

if TYPE_CHECKING:
    from holdfast.server.tokens import Tokens


_person_lifetime_option = click.option(
    "--lifetime",
    type=Duration(),
    default="30d",
    show_default=True,
    help="How long the token is valid.",
)


@click.group("auth")
def command() -> None:
    """Create tokens for the server, and rotate the key that signs them."""


@command.command("task-token")
@click.option("--dag-id", required=True, type=ID, metavar="ID", help="DAG of the task instance.")
@click.option("--run-id", required=True, type=ID, metavar="ID", help="Run of the task instance.")
@click.option("--task-id", required=True, type=ID, metavar="ID", help="Task of the task instance.")
@click.option(
    "--map-index",
    type=MAP_INDEX,
    default=-1,
    metavar="N",
    help="Index of a mapped task instance; -1, the default, if it is not mapped.",
)
@click.option(
    "--asset",
    "names",
    multiple=True,
    metavar="NAME",
    help="An asset that the token gives access to.",
)
@click.option(
    "--asset-uri",
    "uris",
    multiple=True,
    metavar="URI",
    help="An asset that the token gives access to, by URI.",
)
@click.option(
    "--lifetime",
    type=Duration(),
    help="How long the token is valid; by default [api] token_lifetime.",
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

    The token is valid for the running attempt of the task instance and for the named assets. If no
    attempt is running, one is started; an unknown task instance is registered as part of an
    external run.
    """
    settings = load()
    tokens = _tokens(settings)
    scope = TaskScope(dag_id, run_id, task_id, map_index)
    scopes = [AssetScope(name=name) for name in names] + [AssetScope(uri=uri) for uri in uris]
    with open_store(settings) as store:
        found = [store.execute(c.GetAsset(asset)) for asset in scopes]
        assets: Assets = tuple((asset.name, asset.uri) for asset in found)
        attempt = _live_attempt(store, scope)
    token = tokens.issue(TaskIdentity(scope, attempt, assets), lifetime)
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
    help="What the token allows: reading; writing entries and starting runs; or everything.",
)
@click.option(
    "--user",
    metavar="NAME",
    help="The user that writes are attributed to; by default your user name.",
)
@_person_lifetime_option
def user_token(role: str, user: str | None, lifetime: timedelta) -> None:
    """Print a token for a person or tool."""
    name = person().user if user is None else user
    check_id("--user", name)
    click.echo(_tokens(load()).issue(UserIdentity(name, Role(role)), lifetime))


@command.command("worker-token")
@click.option(
    "--name", metavar="NAME", help="The worker's name in logs; by default this machine's name."
)
@_person_lifetime_option
def worker_token(name: str | None, lifetime: timedelta) -> None:
    """Print a token for a worker, which runs attempts and watchers of any DAG."""
    name = socket.gethostname() if name is None else name
    check_id("--name", name)
    click.echo(_tokens(load()).issue(WorkerIdentity(name), lifetime))


@command.command("rotate-key")
@click.option(
    "--overlap",
    type=Duration(zero=True),
    default="1d",
    show_default=True,
    help="How long tokens signed with older keys stay valid; 0: not at all.",
)
def rotate_key(overlap: timedelta) -> None:
    """Sign new tokens with a new key. Running servers pick it up automatically."""
    settings = load()
    _check_key(settings)
    from holdfast.server.keys import rotate

    rotate(settings, overlap)
    rest = f"for another {duration_text(overlap)}" if overlap else "no longer"
    say(f"New tokens are signed with a new key. Tokens signed with older keys are accepted {rest}.")


def _live_attempt(store: Store, scope: TaskScope) -> int:
    try:
        attempts = store.execute(c.ListAttempts(scope))
    except UnknownTaskInstance:
        store.execute(c.RegisterTask(scope))
        attempts = ()
    if attempts and attempts[-1].ended_at is None:
        return attempts[-1].number
    return store.execute(c.StartAttempt(scope))


def _check_key(settings: Settings) -> None:
    """Raise InvalidSettings where the signing key is the server's own."""
    packages.check()
    if settings.server_url:
        shown = without_password(settings.server_url)
        raise InvalidSettings(
            f"tokens of the server {shown} are signed with a key that it keeps",
            hint="run `holdfast auth` where the server runs, and copy the token",
        )


def _tokens(settings: Settings) -> Tokens:
    _check_key(settings)
    from holdfast.server.tokens import open_tokens

    return open_tokens(settings)
