"""Public API for authors of backends."""

from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.stores.backend.base import BaseStoreBackend
from holdfast.stores.backend.metastore import MetastoreStateBackend
from holdfast.stores.offload.objects.backend import ObjectStoreBackend

BaseStateBackend = BaseStoreBackend
StateScope = StoreScope
"""Names from earlier drafts."""

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
