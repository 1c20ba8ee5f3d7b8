"""Catalogs of Iceberg tables, and translation of PyIceberg's errors."""

from __future__ import annotations

import os
import re
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Final

from pyiceberg import exceptions as theirs
from pyiceberg.catalog import Catalog, list_catalogs, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table import Table
from requests import RequestException

from holdfast.errors import (
    BackendFailed,
    Forbidden,
    HoldfastError,
    InvalidInput,
    MissingDependency,
    StoreUnavailable,
    TableChanged,
)

_REFUSED: Final = (
    theirs.ForbiddenError,
    theirs.UnauthorizedError,
    theirs.AuthorizationExpiredError,
    theirs.OAuthError,
)
_AWAY: Final = (theirs.ServerError, theirs.ServiceUnavailableError, theirs.TooManyRequestsError)
_TIMEOUT: Final = (10, 120)
"""Seconds to wait for a connection to a REST catalog, and for each part of its response."""
_SECRET: Final = re.compile(r"(\w+://)[^\s/@]*@")


def open_catalog(name: str, properties: Mapping[str, str] | None) -> Catalog:
    """Return a catalog of PyIceberg's configuration, or with these properties.

    Raise InvalidInput if there is none or the properties are not valid, MissingDependency without
    the package it needs, StoreUnavailable if it does not answer.
    """
    with translated(f"open the catalog `{name}`"):
        known = list_catalogs()
        if properties is None and name.lower() not in known:
            configured = f"it has {', '.join(sorted(known))}; " if known else ""
            raise InvalidInput(
                f"the catalog `{name}` is not in PyIceberg's configuration",
                hint=f"{configured}add it to ~/.pyiceberg.yaml, set "
                f"PYICEBERG_CATALOG__{name.upper()}__URI, or give its properties: "
                'catalog={"type": "sql", "uri": "postgresql+psycopg://…", "warehouse": "s3://…"}',
            )
        given = {key: value for key, value in (properties or {}).items() if key != "name"}
        try:
            catalog = load_catalog(name, **given)
        except (ValueError, theirs.NoSuchPropertyException) as error:
            raise InvalidInput(
                f"the properties of the catalog `{name}` are not valid: {described(error)}",
                hint='catalog={"type": "sql", "uri": "sqlite:////lake/catalog.db", '
                '"warehouse": "file:///lake"}',
            ) from None
    if isinstance(catalog, RestCatalog):
        # A request that is never answered would be waited for without end.
        session = catalog._session
        session.request = partial(session.request, timeout=_TIMEOUT)  # type: ignore[method-assign]
    if (engine := getattr(catalog, "engine", None)) is not None:
        weakref.finalize(catalog, _disconnect, engine, os.getpid())
    return catalog


def _disconnect(engine: Any, process: int) -> None:
    # A process that was forked must leave the connections of its parent alone.
    if os.getpid() == process:
        engine.dispose()


def load_table(catalog: Catalog, identifier: str, name: str) -> Table | None:
    """Return a table at its newest version; None if there is none."""
    with translated(f"read {name}"):
        try:
            return catalog.load_table(identifier)
        except (theirs.NoSuchTableError, theirs.NoSuchNamespaceError):
            return None
        except FileNotFoundError as error:
            raise TableChanged(
                f"the metadata of {name} is gone: {described(error)}",
                hint="restore the file, or drop the table from the catalog and create it again",
            ) from None


def create_table(
    catalog: Catalog, identifier: str, schema: Schema, spec: PartitionSpec, name: str
) -> Table:
    """Create a table, or return the one that another process has created meanwhile. Raise
    InvalidInput if the catalog has no such namespace, or no place for the table."""
    namespace = identifier.rpartition(".")[0]
    with translated(f"create {name}"):
        try:
            return catalog.create_table(identifier, schema, partition_spec=spec)
        except theirs.TableAlreadyExistsError:
            return catalog.load_table(identifier)
        except theirs.NoSuchNamespaceError:
            existing = [".".join(one) for one in catalog.list_namespaces()]
            has = f"it has {', '.join(sorted(existing)[:10])}; " if existing else ""
            raise InvalidInput(
                f"{name} cannot be created: the catalog has no namespace `{namespace}`",
                hint=f"{has}create it: load_catalog({catalog.name!r})"
                f".create_namespace({namespace!r})",
            ) from None
        except ValueError as error:
            raise InvalidInput(
                f"{name} cannot be created: {described(error)}",
                hint="the catalog's property `warehouse` is the URL below which tables are created",
            ) from None


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise the errors of PyIceberg, and of what it uses, as errors of Holdfast."""
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except HoldfastError:
        raise
    except theirs.NotInstalledError as error:
        raise MissingDependency(
            f"cannot {doing}: {described(error)}", hint=described(error)
        ) from None
    except _REFUSED as error:
        raise Forbidden(
            f"cannot {doing}: the catalog refused it: {described(error)}",
            hint="check the catalog's credentials, and what they may do",
        ) from None
    except (RequestException, SQLAlchemyError, *_AWAY) as error:
        raise StoreUnavailable(
            f"cannot {doing}: the catalog does not answer: {described(error)}",
            hint="check the catalog's `uri`, and that it can be reached from here",
        ) from None
    except theirs.NoSuchTableError as error:
        raise TableChanged(
            f"cannot {doing}: it was dropped: {described(error)}", hint="run this again"
        ) from None
    except Exception as error:
        ours = (OSError, ValueError, TypeError, NotImplementedError)
        if not isinstance(error, ours) and not _is_theirs(error):
            raise
        raise BackendFailed(
            f"cannot {doing}: {described(error)}",
            hint="check that the catalog and the storage of its tables can be reached and written",
        ) from error


def _is_theirs(error: Exception) -> bool:
    package = type(error).__module__.partition(".")[0]
    return package in ("pyiceberg", "pyarrow", "fsspec", "botocore", "thrift", "google")


def described(error: BaseException) -> str:
    """Return the first line of an error's message, without passwords in URLs."""
    text = str(error).strip() or type(error).__name__
    return _SECRET.sub(r"\1…@", text.splitlines()[0])[:300]
