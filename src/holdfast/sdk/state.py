"""What authors of backends import."""

from holdfast.backend import BaseStoreBackend
from holdfast.blobs.backend import ObjectStoreBackend
from holdfast.scope import AssetScope, StoreScope, TaskScope
from holdfast.stores.metastore import MetastoreStateBackend

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
