"""Scopes of state: a task instance or an asset."""

from __future__ import annotations

from functools import cached_property
from typing import TypeAlias
from uuid import UUID, uuid5

import msgspec
from msgspec.structs import force_setattr

from holdfast.errors import InvalidInput, InvalidType
from holdfast.portable.identifier import MAX_ASSET_LENGTH, check_id, check_map_index

_TASK_NAMESPACE = UUID("6c1d9f0e-5a0b-4d53-9d0c-0f7c6f1f4b1a")


class TaskScope(msgspec.Struct, frozen=True, dict=True, tag="task"):
    """One task instance. Its attempts share it: a retry finds what the previous attempt stored."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int = -1

    def __post_init__(self) -> None:
        for name in ("dag_id", "run_id", "task_id"):
            force_setattr(self, name, check_id(name, getattr(self, name)))
        check_map_index(self.map_index)

    @cached_property
    def ti_id(self) -> UUID:
        """The UUID of the four fields, which is the same for every attempt and every machine."""
        identity = [self.dag_id, self.run_id, self.task_id, self.map_index]
        return uuid5(_TASK_NAMESPACE, msgspec.json.encode(identity).decode())

    @cached_property
    def ti_text(self) -> str:
        """`ti_id` as text, computed once: every look-up uses it."""
        return str(self.ti_id)

    def __str__(self) -> str:
        mapped = f"[{self.map_index}]" if self.map_index >= 0 else ""
        return f"task {self.dag_id}/{self.run_id}/{self.task_id}{mapped}"


class AssetScope(msgspec.Struct, frozen=True, tag="asset"):
    """One asset: by id on the server, by name or URI on a worker. The first one given is used."""

    asset_id: int | None = None
    name: str | None = None
    uri: str | None = None

    def __post_init__(self) -> None:
        if self.asset_id is None and self.name is None and self.uri is None:
            raise InvalidInput("AssetScope is empty", hint="give asset_id, name or uri")
        if self.asset_id is not None and type(self.asset_id) is not int:
            raise InvalidType(
                f"asset_id must be an integer, not {self.asset_id!r}",
                hint="use int(…), or the name",
            )
        if self.name is not None:
            force_setattr(self, "name", check_id("asset name", self.name, MAX_ASSET_LENGTH))
        if self.uri is not None:
            force_setattr(self, "uri", check_id("asset URI", self.uri, MAX_ASSET_LENGTH))

    def __str__(self) -> str:
        return f"asset `{self.name or self.uri or self.asset_id}`"


StoreScope: TypeAlias = TaskScope | AssetScope
