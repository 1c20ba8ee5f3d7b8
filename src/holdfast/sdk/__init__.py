"""Public API for pipeline authors."""

from holdfast.model.run import TriggerRule
from holdfast.portable.retention import NEVER_EXPIRE
from holdfast.sdk.asset import Asset, AssetAlias, AssetAll, AssetAny, AssetWatcher, Metadata
from holdfast.sdk.asset_function import asset
from holdfast.sdk.context import Context, get_current_context
from holdfast.sdk.dag import DAG, dag
from holdfast.sdk.dependency import chain
from holdfast.sdk.operator import BaseOperator
from holdfast.sdk.param import Param
from holdfast.sdk.resumable import ResumableJobMixin
from holdfast.sdk.task import task
from holdfast.sdk.triggers import BaseEventTrigger, TriggerEvent
from holdfast.sdk.xcomarg import XComArg

__all__ = [
    "DAG",
    "NEVER_EXPIRE",
    "Asset",
    "AssetAlias",
    "AssetAll",
    "AssetAny",
    "AssetWatcher",
    "BaseEventTrigger",
    "BaseOperator",
    "Context",
    "Metadata",
    "Param",
    "ResumableJobMixin",
    "TriggerEvent",
    "TriggerRule",
    "XComArg",
    "asset",
    "chain",
    "dag",
    "get_current_context",
    "task",
]
