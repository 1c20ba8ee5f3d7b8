"""Location of the data source's store, from options, defaults and configuration."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import NamedTuple

from holdfast.errors import InvalidInput, MissingDependency, NoToken

TOKEN_VARIABLE = "HOLDFAST_TOKEN"  # noqa: S105  (its name, not its content)


class Location(NamedTuple):
    """A database, or a server with a token for it."""

    url: str
    token: str = ""
    backend: str = ""
    """The backend configured with a database; empty: the built-in one."""
    retention: timedelta | None = None
    """The default retention of entries. None: not known here."""

    @property
    def is_server(self) -> bool:
        return is_server(self.url)


def is_server(url: str) -> bool:
    return url.lower().startswith(("http://", "https://"))


def locate(options: Mapping[str, str], default: Location | None) -> Location:
    """Return the location in the options, or else the default, or else the one configured here.

    Raise InvalidInput for options that contradict each other, and NoToken for a server without one.
    """
    url, token = options.get("url"), options.get("token")
    if url is None:
        if token is not None:
            raise InvalidInput(
                "a token is given without the URL of a server",
                hint='.option("url", "http://…").option("token", …)',
            )
        return default or configured()
    kept = default.retention if default else None
    if not is_server(url):
        if token is not None:
            raise InvalidInput(
                "a token is given with the URL of a database",
                hint="tokens are for servers: http://… or https://…",
            )
        return Location(url, backend=default.backend if default else "", retention=kept)
    if token is None and default is not None and default.url.rstrip("/") == url.rstrip("/"):
        token = default.token
    return Location(url, checked_token(token), retention=kept)


def checked_token(token: str | None) -> str:
    """Return the token, or that of the environment. Raise NoToken where there is none."""
    given = (os.environ.get(TOKEN_VARIABLE, "") if token is None else token).strip()
    if not given:
        raise NoToken(
            "the server needs a token, and none is given",
            hint=f"set {TOKEN_VARIABLE}, or pass token=…; `holdfast auth user-token`, where the "
            "server runs, prints one",
        )
    return given


def configured() -> Location:
    """Return the store that is configured for this process; raise InvalidInput without Holdfast
    here."""
    try:
        from holdfast.settings import load
    except ModuleNotFoundError:
        raise InvalidInput(
            "the store's URL is not given, and Holdfast, which would look it up, is not installed "
            "here",
            hint='holdfast.spark.register(spark), or .option("url", …)',
        ) from None
    settings = load()
    retention = timedelta(days=settings.state_store.default_retention_days)
    if settings.server_url:
        return Location(settings.server_url, checked_token(None), retention=retention)
    return Location(
        settings.database_url, backend=settings.state_store.backend, retention=retention
    )


@contextmanager
def installed_here() -> Iterator[None]:
    """Import a part of Holdfast that is not shipped, because it connects to a database. Raise
    MissingDependency where that is not installed."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingDependency(
            "to read a database, Spark's workers need Holdfast and the database's driver, and "
            f"`{error.name}` is not installed here",
            hint='install them there, or use a server: .option("url", "http://…").option("token", '
            "…)",
        ) from None
