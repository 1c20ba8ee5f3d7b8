"""What tasks leave for other tasks."""

from __future__ import annotations

from holdfast import run_command as rc
from holdfast.stores.sql import run_statements as s
from holdfast.stores.sql.operations.scopes import Owner, open_scope
from holdfast.stores.sql.operations.steps import Context, Steps


def keep(context: Context, owner: Owner, key: str, value: str) -> Steps[None]:
    result = {"owner": owner.id, "key": key, "value": value}
    yield s.put_result(type(context.dialect)), result


def put_result(context: Context, command: rc.PutResult) -> Steps[None]:
    owner = yield from open_scope(command.writer.scope, command.writer)
    yield from keep(context, owner, command.key, command.value)


def get_results(context: Context, command: rc.GetResults) -> Steps[tuple[tuple[int, str], ...]]:
    params = {
        "dag_id": command.dag_id,
        "run_id": command.run_id,
        "task_id": command.task_id,
        "key": command.key,
        "map_index": command.map_index,
    }
    found = yield s.results(command.map_index is not None), params
    return tuple((map_index, value) for map_index, value in found)
