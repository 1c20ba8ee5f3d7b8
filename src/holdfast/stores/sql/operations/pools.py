"""Pools: listed, set and deleted, and their slots taken."""

from __future__ import annotations

from holdfast import commands as c
from holdfast.errors import Conflict, InvalidInput, NotFound
from holdfast.model.pool import DEFAULT_POOL, NO_LIMIT, UNUSED_DEFAULT_POOL, Pool
from holdfast.stores import refusals
from holdfast.stores.sql import run_rows
from holdfast.stores.sql.operations.steps import BEGIN, Context, Steps
from holdfast.stores.sql.statements import pools as p


def list_pools(context: Context, command: c.ListPools) -> Steps[tuple[Pool, ...]]:
    besides = command.besides is not None
    process = {"process": run_rows.process_column(command.besides)} if besides else {}
    found = yield p.pools(besides), process
    pools = {DEFAULT_POOL: UNUSED_DEFAULT_POOL}
    for name, slots, description, used in found:
        pools[name] = Pool(name=name, slots=slots, description=description, used=int(used))
    return tuple(pool for _, pool in sorted(pools.items()))


def set_pool(context: Context, command: c.SetPool) -> Steps[Pool]:
    yield BEGIN
    found = yield p.lock_pool(), {"pool": command.name}
    if found and command.exists is False:
        raise Conflict(
            f"pool `{command.name}` exists already", hint="change it instead of creating it"
        )
    slots, description = UNUSED_DEFAULT_POOL.slots, UNUSED_DEFAULT_POOL.description
    if found:
        [(slots, description)] = found
    elif command.name != DEFAULT_POOL:
        if command.exists or command.slots is None:
            raise (yield from _unknown(context, command.name))
        description = ""
    if command.slots is not None:
        slots = command.slots
    if command.description is not None:
        description = command.description
    [(used,)] = yield p.used_slots(), {"pool": command.name}
    pool = Pool(name=command.name, slots=slots, description=description, used=int(used))
    stored = {"name": pool.name, "slots": pool.slots, "description": pool.description}
    yield p.put_pool(type(context.dialect)), stored
    return pool


def take_slots(context: Context, command: c.StartAttempt) -> Steps[None]:
    """Raise NoFreeSlot unless the pool has the slots; keep others from taking them until commit."""
    if command.pool is None:
        return
    pool = {"pool": command.pool}
    found = yield p.lock_pool(), pool
    if not found and command.pool == DEFAULT_POOL:
        yield p.add_default_pool(type(context.dialect)), {}
        found = yield p.lock_pool(), pool
    if not found:
        raise refusals.no_pool(command.pool)
    slots = found[0][0]
    if slots != NO_LIMIT:
        [(used,)] = yield p.used_slots(), pool
        if used + command.pool_slots > slots:
            raise refusals.no_free_slot(command.pool, command.pool_slots, slots - int(used))


def delete_pool(context: Context, command: c.DeletePool) -> Steps[None]:
    if command.name == DEFAULT_POOL:
        raise InvalidInput(
            f"pool `{DEFAULT_POOL}` cannot be deleted: tasks that name no pool use it",
            hint=f"change its slots: `holdfast pools set {DEFAULT_POOL} SLOTS`",
        )
    if not (yield p.delete_pool(), {"pool": command.name}):
        raise (yield from _unknown(context, command.name))


def _unknown(context: Context, name: str) -> Steps[NotFound]:
    names = [pool.name for pool in (yield from list_pools(context, c.ListPools()))]
    return refusals.unknown_pool(name, names)
