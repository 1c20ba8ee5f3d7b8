"""The store, scope, writer and rules that an accessor is bound to."""

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
    """The configured rules about values and their lifetime."""

    default_retention: timedelta = timedelta(days=30)
    max_value_bytes: int = 65535
    clear_on_success: bool = False
    offloading: Offloading = Offloading()


class Binding(NamedTuple, Generic[S]):
    """The scope of the entries, their store, the writer and the rules."""

    store: Store
    """The store of the entries themselves, in which offloaded values are references."""
    scope: S
    writer: Writer
    rules: Rules
