"""What an accessor stands on."""

from __future__ import annotations

from datetime import timedelta
from typing import Generic, NamedTuple, TypeVar

import msgspec

from holdfast.model.entry import Writer
from holdfast.model.scope import StoreScope
from holdfast.store import Store
from holdfast.stores.offload.configuration import Offloading

S = TypeVar("S", bound=StoreScope)


class Rules(msgspec.Struct, frozen=True):
    """What the configuration says about values and their lifetime."""

    default_retention: timedelta = timedelta(days=30)
    max_value_bytes: int = 65535
    clear_on_success: bool = False
    offloading: Offloading = Offloading()


class Binding(NamedTuple, Generic[S]):
    """Whose entries, in which store, by which writer and rules."""

    store: Store
    """Where the entries themselves are: a worker-side backend's values are references there."""
    scope: S
    writer: Writer
    rules: Rules
