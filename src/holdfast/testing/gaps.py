"""Gaps: the commands that a store under test declares as unsupported.

A test that needs a declared gap is expected to fail where it meets it. Any other NotSupported is a
failure, and so is a declared gap that does not exist.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping
from typing import Any, Final, NoReturn, TypeAlias, TypeVar

import pytest

from holdfast import commands as c
from holdfast.errors import NotSupported
from holdfast.store import Store, WrapperStore

A = TypeVar("A")

Gap: TypeAlias = type[c.Command[Any]] | str

IF_VERSION: Final = "if_version"
"""`Set` with a version to compare with."""
STAGED_ADVANCE: Final = "staged advance"
"""`Advance` that takes effect on success."""
STAGED_TOGETHER: Final = "staged together"
"""Several staged writes of one attempt."""

WITHOUT_OPTIONAL_METHODS: Final[frozenset[Gap]] = frozenset(
    {
        *(c.GetEntry, c.List, c.SetMany, c.Advance, c.History, c.Rewind),
        *(c.CountExpired, c.ListExpired, c.DeleteExpired, c.TakeExpired),
        *(c.StartLoad, c.AddToLoad, c.FinishLoad, c.DropLoad),
        *(IF_VERSION, STAGED_ADVANCE, STAGED_TOGETHER),
    }
)
"""The gaps of a custom backend that has only the required methods."""


def needs(command: c.Command[Any]) -> frozenset[Gap]:
    """Return everything that the command needs and that a store may declare as a gap."""
    found: set[Gap] = {type(command)}
    match command:
        case c.Set():
            found |= {IF_VERSION} if command.if_version is not None else set()
            found |= {STAGED_TOGETHER} if command.on_success else set()
        case c.Advance() if command.on_success:
            found |= {STAGED_ADVANCE}
        case c.Once() | c.Guarded():
            found |= needs(command.inner)
        case c.Emit():
            found |= frozenset[Gap]().union(*map(needs, command.writes))
    return frozenset(found)


class StoreUnderTest(WrapperStore):
    """Wrapper that forwards every command, and ends a test as expected at a declared gap."""

    def __init__(self, inner: Store, gaps: Collection[Gap]) -> None:
        super().__init__(inner)
        self.gaps = frozenset(gaps)

    def execute(self, command: c.Command[A]) -> A:
        try:
            return self.inner.execute(command)
        except NotSupported as error:
            self._end_at_gap(command, error)

    async def aexecute(self, command: c.Command[A]) -> A:
        try:
            return await self.inner.aexecute(command)
        except NotSupported as error:
            self._end_at_gap(command, error)

    def _end_at_gap(self, command: c.Command[Any], error: NotSupported) -> NoReturn:
        if needs(command) & self.gaps:
            pytest.xfail(f"a declared gap: {error.message}")
        raise error


def expected_to_fail(owner: type, tests: Mapping[str, str]) -> None:
    """Mark tests of a class, by name, as expected failures with a reason. One that passes fails.

    Raise TypeError where the class has no such test, or there is no reason.
    """
    for name, reason in tests.items():
        test = getattr(owner, name, None)
        if not callable(test) or not reason:
            raise TypeError(f"{owner.__name__} has no test `{name}`, or no reason is given")
        setattr(owner, name, pytest.mark.xfail(reason=reason, strict=True)(_copy(test)))


def _copy(test: Callable[..., Any]) -> Callable[..., Any]:
    # Marks belong to the function, which other classes share.
    @functools.wraps(test)
    def copied(*args: Any, **options: Any) -> Any:
        return test(*args, **options)

    copied.pytestmark = list(getattr(test, "pytestmark", ()))  # type: ignore[attr-defined]
    return copied
