"""Triggers: what looks out for events in other systems."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from holdfast.errors import OutsideTask

if TYPE_CHECKING:
    from holdfast.sdk.asset_stores import AssetStores


class TriggerEvent:
    """Something has happened; `payload`, which is JSON, says what."""

    def __init__(self, payload: Any = None) -> None:
        self.payload = payload

    def __repr__(self) -> str:
        return f"TriggerEvent({self.payload!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TriggerEvent) and other.payload == self.payload

    __hash__ = None  # type: ignore[assignment]


class BaseEventTrigger(ABC):
    """Looks out for changes of the asset that it watches.

    `run` yields an event for each. What it writes to `self.asset_store` before a `yield` becomes
    visible with that event, so a trigger that is started again goes on from what it stored.
    """

    _asset_store: AssetStores | None = None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)

    @abstractmethod
    def run(self) -> AsyncIterator[TriggerEvent]:
        """An async generator of events; it ends when there is nothing more to look out for."""

    async def cleanup(self) -> None:  # noqa: B027  (most triggers hold nothing to let go of)
        """Called when `run` has ended, whichever way."""

    @property
    def log(self) -> logging.Logger:
        return logging.getLogger("holdfast.watcher")

    @property
    def asset_store(self) -> AssetStores:
        """The store of the asset that is watched."""
        if self._asset_store is None:
            raise OutsideTask(
                f"{type(self).__name__}.asset_store is there in run() only",
                hint="read and write it while the watcher runs, not when it is made",
            )
        return self._asset_store

    @property
    def asset_state(self) -> AssetStores:
        return self.asset_store

    @property
    def asset_state_store(self) -> AssetStores:
        return self.asset_store
