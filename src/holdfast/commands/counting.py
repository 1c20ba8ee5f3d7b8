"""The number of items in a listing."""

from __future__ import annotations

from typing import TypeAlias

from holdfast.commands.alerts import ListAlerts
from holdfast.commands.assets import ListAssetEvents, ListAssets
from holdfast.commands.base import Category, Command
from holdfast.commands.dags import ListDags, ListFiles
from holdfast.commands.runs import ListRuns
from holdfast.commands.tasks import ListTaskInstances

Listing: TypeAlias = (
    ListAlerts | ListAssets | ListDags | ListFiles | ListRuns | ListTaskInstances | ListAssetEvents
)


class Count(Command[int], frozen=True):
    """Count the items that a listing would return without its limit and offset."""

    category = Category.READS

    listing: Listing
