"""Lookup of a scope's row."""

from __future__ import annotations

from typing import Any

from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.stores import refusals
from holdfast.stores.sql import rows
from holdfast.stores.sql.operations.steps import Steps
from holdfast.stores.sql.statements import assets as a
from holdfast.stores.sql.statements import entries as s
from holdfast.stores.sql.statements.scope_tables import ASSETS, TASKS, ScopeTables


def find(scope: StoreScope) -> tuple[ScopeTables, str, dict[str, Any]]:
    """Return the tables, the column that finds the owner, and the parameter for it."""
    if isinstance(scope, TaskScope):
        return TASKS, "ti_id", {"owner": scope.ti_text}
    if scope.asset_id is not None:
        return ASSETS, "id", {"owner": scope.asset_id}
    if scope.name is not None:
        return ASSETS, "name_digest", {"owner": rows.digest(scope.name)}
    assert scope.uri is not None
    return ASSETS, "uri_digest", {"owner": rows.digest(scope.uri)}


def unknown(scope: StoreScope) -> Steps[Exception]:
    if isinstance(scope, TaskScope):
        return refusals.unknown_task(scope)
    names = yield a.asset_names(), {}
    return refusals.unknown_asset(scope, [name for (name,) in names])


def known(scope: StoreScope) -> Steps[Any]:
    """Return the owner's id. Raise an error if the scope does not exist."""
    tables, by, params = find(scope)
    found = yield s.owner(tables, by), params
    if not found:
        raise (yield from unknown(scope))
    return found[0][0]


def resolve(scope: StoreScope) -> Steps[StoreScope]:
    """Return the scope with all its identifiers. Raise an error if it does not exist."""
    if isinstance(scope, TaskScope):
        yield from known(scope)
        return scope
    _, by, params = find(scope)
    found = yield s.identity(by), params
    if not found:
        raise (yield from unknown(scope))
    return AssetScope(*found[0])
