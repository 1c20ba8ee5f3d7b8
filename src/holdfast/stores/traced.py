"""Store whose commands are spans of the current trace."""

from __future__ import annotations

from typing import TypeVar

from holdfast.commands import Command
from holdfast.monitoring import tracing
from holdfast.store import Store, WrapperStore

A = TypeVar("A")


class TracedStore(WrapperStore):
    """A store in front of another one, with a span for each command inside of a traced attempt."""

    def execute(self, command: Command[A]) -> A:
        if not tracing.headers():
            return self.inner.execute(command)
        with tracing.span(f"store {type(command).__name__}"):
            return self.inner.execute(command)


def traced(store: Store) -> Store:
    """Return the store with spans, if tracing is on."""
    return TracedStore(store) if tracing.is_on() else store
