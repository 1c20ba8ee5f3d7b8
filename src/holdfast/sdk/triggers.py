"""Triggers: what looks out for events in other systems."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any


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

    _asset_store: Any = None

    def __init__(self, **kwargs: Any) -> None:
        """Take any arguments, which a subclass may pass on, and leave them."""
        super().__init__()

    @abstractmethod
    def run(self) -> AsyncIterator[TriggerEvent]:
        """An async generator of events; it ends when there is nothing more to look out for."""

    async def cleanup(self) -> None:  # noqa: B027  (most triggers hold nothing to let go of)
        """Called when `run` has ended, whichever way."""

    @property
    def log(self) -> logging.Logger:
        return logging.getLogger("holdfast.watcher")

    @property
    def asset_store(self) -> Any:
        """The store of the asset that is watched, while `run` is running; None before and after.
        A unit test may set one of its own."""
        return self._asset_store

    @asset_store.setter
    def asset_store(self, store: Any) -> None:
        self._asset_store = store

    asset_state = asset_state_store = asset_store
