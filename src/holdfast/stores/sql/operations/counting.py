"""Counting of what a listing would find, under the listing's own conditions."""

from __future__ import annotations

from functools import cache

import sqlalchemy as sa

from holdfast import commands as c
from holdfast.stores.sql.operations.events import events_query
from holdfast.stores.sql.operations.runs import runs_query
from holdfast.stores.sql.operations.steps import Context, Query, Steps
from holdfast.stores.sql.operations.tasks import task_instances_query
from holdfast.stores.sql.statements import assets as a
from holdfast.stores.sql.statements import dags as d
from holdfast.stores.sql.statements.alerts import alerts
from holdfast.stores.sql.statements.scope_tables import Select


def count(context: Context, command: c.Count) -> Steps[int]:
    [(found,)] = yield _query(command.listing)
    return found  # type: ignore[no-any-return]


def _query(listing: c.Listing) -> Query:
    match listing:
        case c.ListAssets():
            return a.count_assets(), {}
        case c.ListDags():
            return _counted(d.dags()), {}
        case c.ListFiles():
            return _counted(d.files(listing.broken)), {}
        case c.ListAlerts():
            return _counted(alerts()), {}
        case c.ListRuns():
            select, params = runs_query(listing)
        case c.ListTaskInstances():
            select, params = task_instances_query(listing)
        case c.ListAssetEvents():
            select, params = events_query(listing)
    return _counted(select), params


@cache
def _counted(select: Select) -> Select:
    rows = select.with_only_columns(sa.func.count(), maintain_column_froms=True)
    return rows.order_by(None).limit(None).offset(None)
