"""Triggers, which watch for events in other systems."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator
from typing import Any


class TriggerEvent:
    """An event that a trigger has detected; `payload`, which is JSON, describes it."""

    def __init__(self, payload: Any = None) -> None:
        self.payload = payload

    def __repr__(self) -> str:
        return f"TriggerEvent({self.payload!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TriggerEvent) and other.payload == self.payload

    __hash__ = None  # type: ignore[assignment]


class BaseEventTrigger(ABC):
    """Watches for changes of an asset.

    `run` yields an event for each. What it writes to `self.asset_store` before a `yield` becomes
    visible with that event, so a restarted trigger continues from what it stored.
    """

    _asset_store: Any = None

    def __init__(self, **kwargs: Any) -> None:
        """Accept any arguments, which a subclass may pass on, and ignore them."""
        super().__init__()

    @abstractmethod
    def run(self) -> AsyncIterator[TriggerEvent]:
        """Yield events, as an async generator; it ends when there is nothing more to watch for."""

    async def cleanup(self) -> None:  # noqa: B027  (most triggers hold no resources)
        """Release resources; called when `run` has ended, with or without an exception."""

    @property
    def log(self) -> logging.Logger:
        return logging.getLogger("holdfast.watcher")

    @property
    def asset_store(self) -> Any:
        """The store of the watched asset while `run` is running; None before and after.

        A unit test may set its own.
        """
        return self._asset_store

    @asset_store.setter
    def asset_store(self, store: Any) -> None:
        self._asset_store = store

    asset_state = asset_state_store = asset_store
