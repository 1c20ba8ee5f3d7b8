"""Pools, which limit what runs at once."""

from __future__ import annotations

from holdfast.commands.base import Category, Command
from holdfast.errors import InvalidInput
from holdfast.model.pool import NO_LIMIT, Pool
from holdfast.model.role import Role
from holdfast.model.run import Process
from holdfast.portable.identifier import check_id, check_text

MOST_SLOTS = 1_000_000
MOST_DESCRIPTION = 1_000
"""Maximum characters of a pool's description."""


class ListPools(Command[tuple[Pool, ...]], frozen=True):
    """List every pool, ordered by name, with the slots that running attempts take up.

    An attempt whose lease has expired, because its supervisor died, takes up none.
    """

    category = Category.READS

    besides: Process | None = None
    """Do not count the attempts of runs that this process holds."""


class SetPool(Command[Pool], frozen=True, kw_only=True):
    """Create a pool, or change it; return it. Attempts that run continue, even in a pool that is
    now too small for them."""

    role = Role.EDITOR

    name: str
    slots: int | None = None
    """None: unchanged. Raises NotFound for a new pool."""
    description: str | None = None
    """None: unchanged, or empty for a new pool."""
    exists: bool | None = None
    """True: raise NotFound where there is no such pool. False: raise Conflict where there is."""

    def __post_init__(self) -> None:
        check_id("pool name", self.name)
        described = self.description or ""
        check_text(f"description of pool `{self.name}`", described)
        if len(described) > MOST_DESCRIPTION:
            raise InvalidInput(
                f"the description of pool `{self.name}` has {len(described):,} characters",
                hint=f"shorten it to {MOST_DESCRIPTION:,}",
            )
        if self.slots is not None and not NO_LIMIT <= self.slots <= MOST_SLOTS:
            raise InvalidInput(
                f"pool `{self.name}` cannot have {self.slots} slots",
                hint=f"give a number from 0 to {MOST_SLOTS:,}, or {NO_LIMIT} for no limit",
            )


class DeletePool(Command[None], frozen=True):
    """Delete a pool. Tasks that name it wait until there is one of that name again.

    Raises NotFound where there is none, and InvalidInput for the default pool.
    """

    role = Role.EDITOR

    name: str
