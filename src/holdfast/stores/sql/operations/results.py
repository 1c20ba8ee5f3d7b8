"""Results that tasks pass to other tasks."""

from __future__ import annotations

from holdfast import commands as c
from holdfast.stores.sql.operations.fencing import Owner, open_scope
from holdfast.stores.sql.operations.measuring import up_to_size
from holdfast.stores.sql.operations.steps import NO_LIMIT, Context, Steps
from holdfast.stores.sql.statements import runs as s
from holdfast.stores.sql.statements.entries import measured


def keep(context: Context, owner: Owner, key: str, value: str) -> Steps[None]:
    result = {"owner": owner.id, "key": key, "value": value}
    yield s.put_result(type(context.dialect)), result


def put_result(context: Context, command: c.PutResult) -> Steps[None]:
    owner = yield from open_scope(command.writer.scope, command.writer)
    yield from keep(context, owner, command.key, command.value)


def get_results(context: Context, command: c.GetResults) -> Steps[tuple[tuple[int, str], ...]]:
    params = {
        "dag_id": command.dag_id,
        "run_id": command.run_id,
        "task_id": command.task_id,
        "key": command.key,
        "map_index": command.map_index,
        "after": -2 if command.after is None else command.after,
        "limit": NO_LIMIT,
    }
    select = s.results(command.map_index is not None)
    found, _ = yield from up_to_size((select, params), measured(select, "value"), command.max_size)
    return tuple((map_index, value) for map_index, value in found)
