"""Reading of rows with large texts, as far as memory allows."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.commands import count_within
from holdfast.stores.sql import rows
from holdfast.stores.sql.operations.steps import SNAPSHOT, Query, Steps
from holdfast.stores.sql.statements.scope_tables import Select

SMALL = 1024
"""Characters of a text that is read without being measured first, for any number of rows."""


def up_to_size(
    query: Query, measured: Select, max_size: int | None
) -> Steps[tuple[Sequence[rows.Row], bool]]:
    """Return the rows of a query with a `limit`, up to the one with which the texts of a column
    exceed `max_size` characters, and whether others were left out.

    Drivers read all rows of a query at once. So large texts are measured first, and read by a
    second query with no more rows than fit, in one snapshot: otherwise the rows might be others,
    larger or smaller, and a caller that continues after the last would miss some. Small texts are
    read by the first query.
    """
    select, params = query
    if max_size is None:
        return (yield query), False
    whole = max(SMALL, max_size // max(1, params["limit"]))
    for repeatable in (False, True):
        if repeatable:
            yield SNAPSHOT
        found = yield measured, params | {"whole": whole}
        sizes = [row[-1] or 0 for row in found]
        count = count_within(sizes, max_size)
        more = count < len(found)
        if max(sizes[:count], default=0) <= whole:
            return [row[:-1] for row in found[:count]], more
    return (yield select, params | {"limit": count}), more
