"""What authors of backends import."""

from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.stores.backend.contract import BaseStoreBackend
from holdfast.stores.backend.metastore import MetastoreStateBackend
from holdfast.stores.offload.objects.backend import ObjectStoreBackend

BaseStateBackend = BaseStoreBackend
StateScope = StoreScope
"""The names that earlier drafts had."""

__all__ = [
    "AssetScope",
    "BaseStateBackend",
    "BaseStoreBackend",
    "MetastoreStateBackend",
    "ObjectStoreBackend",
    "StateScope",
    "StoreScope",
    "TaskScope",
]
