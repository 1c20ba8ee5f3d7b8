"""Routes for pools, the limits on what runs at once."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field
from pydantic.json_schema import SkipJsonSchema

from holdfast import commands as c
from holdfast.actions.pools import get_pool
from holdfast.model import run_presentation
from holdfast.model.pool import NO_LIMIT
from holdfast.model.pool import Pool as Known
from holdfast.server.public.caller import CallerDep
from holdfast.server.public.error_docs import BODY, problems
from holdfast.server.public.model import Answer, Body, Id
from holdfast.server.public.parameter import PoolName
from holdfast.server.public.route import public_router

router = public_router("Pools")

Slots = Annotated[int, Field(ge=NO_LIMIT, le=c.MOST_SLOTS, description="-1: no limit.")]
Description = Annotated[str, Field(max_length=1000)]


class Pool(Answer):
    """A pool, and how much of it is in use."""

    name: str
    slots: int = Field(description="The number of slots; -1: no limit.")
    description: str
    occupied_slots: int = Field(
        description="Slots that running tasks take up; more than there are if the pool was made "
        "smaller."
    )
    open_slots: int | None = Field(description="The number of free slots; null: no limit.")


class PoolCollection(Answer):
    """All pools, ordered by name."""

    pools: list[Pool]
    total_entries: int


class PoolBody(Body):
    """A new pool."""

    name: Id = Field(examples=["warehouse"])
    slots: Slots
    description: Description = ""


class PoolPatch(Body):
    """The changes of a pool."""

    slots: Slots | SkipJsonSchema[None] = None
    description: Description | SkipJsonSchema[None] = None


@router.get("/pools")
async def list_pools(caller: CallerDep) -> PoolCollection:
    """List pools, ordered by name."""
    pools = [of_pool(one) for one in await caller.aexecute(c.ListPools())]
    return PoolCollection(pools=pools, total_entries=len(pools))


@router.get("/pools/{pool_name}", responses=problems(404))
async def read_pool(caller: CallerDep, pool_name: PoolName) -> Pool:
    """Read a pool."""
    return of_pool(await caller.follow(get_pool(pool_name)))


@router.post("/pools", status_code=201, responses=problems(409, *BODY))
async def create_pool(caller: CallerDep, body: PoolBody) -> Pool:
    """Create a pool."""
    new = c.SetPool(name=body.name, slots=body.slots, description=body.description, exists=False)
    return of_pool(await caller.aexecute(new))


@router.patch("/pools/{pool_name}", responses=problems(404, *BODY))
async def patch_pool(caller: CallerDep, pool_name: PoolName, body: PoolPatch) -> Pool:
    """Change a pool. Tasks that run continue, even where it is now too small for them."""
    return of_pool(
        await caller.aexecute(
            c.SetPool(name=pool_name, slots=body.slots, description=body.description, exists=True)
        )
    )


@router.delete("/pools/{pool_name}", status_code=204, responses=problems(404))
async def delete_pool(caller: CallerDep, pool_name: PoolName) -> None:
    """Delete a pool. Tasks that name it wait until there is one of that name again."""
    await caller.aexecute(c.DeletePool(pool_name))


def of_pool(pool: Known) -> Pool:
    return Pool(**run_presentation.of_pool(pool))
