"""Current activity, counted for monitoring."""

from __future__ import annotations

from datetime import timedelta
from typing import Final

from holdfast import commands as c
from holdfast.model.activity import Activity, WatcherActivity
from holdfast.model.run import TaskState
from holdfast.stores.sql import rows
from holdfast.stores.sql.operations.steps import Context, Steps
from holdfast.stores.sql.statements import activity as s
from holdfast.stores.sql.statements.alerts import count_undelivered

LATELY: Final = timedelta(days=1)


def get_activity(context: Context, command: c.GetActivity) -> Steps[Activity]:
    found = dict((yield s.open_tasks(), {}))
    [(dags,)] = yield s.present_dags(), {}
    [(errors,)] = yield s.import_errors(), {}
    [(alerts,)] = yield count_undelivered(), {}
    watchers = yield s.watchers(), {"age": rows.microseconds(LATELY)}
    return Activity(
        tasks={state.value: found.get(state, 0) for state in TaskState if not state.ended},
        dags=dags,
        import_errors=errors,
        watchers=tuple(
            WatcherActivity(asset, watcher, bool(alive), rows.time_of(at))
            for asset, watcher, alive, at in watchers
        ),
        undelivered_alerts=alerts,
    )
