"""What comes after what: `>>`, `<<` and `chain`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from holdfast.errors import InvalidDag

if TYPE_CHECKING:
    from holdfast.sdk.node import TaskNode

Several: TypeAlias = "Dependency | Iterable[Dependency]"
S = TypeVar("S", bound=Any)


class Dependency(ABC):
    """A task, or its result: what others can be put before and after.

    Operators of users inherit from this: names with an underscore leave the others to them.
    """

    @property
    @abstractmethod
    def _node(self) -> TaskNode:
        """The task."""

    def set_downstream(self, other: Several) -> None:
        """The other, or each of them, waits for this one."""
        for one in each(other):
            one._node._follow(self._node)

    def set_upstream(self, other: Several) -> None:
        """This one waits for the other, or for each of them."""
        for one in each(other):
            self._node._follow(one._node)

    def __rshift__(self, other: S) -> S:
        self.set_downstream(other)
        return other

    def __lshift__(self, other: S) -> S:
        self.set_upstream(other)
        return other

    def __rrshift__(self, other: Any) -> Dependency:
        self.set_upstream(other)
        return self

    def __rlshift__(self, other: Any) -> Dependency:
        self.set_downstream(other)
        return self


def each(several: Several) -> list[Dependency]:
    """One as a list of one; what is neither a task nor a list of tasks is an error."""
    if isinstance(several, Dependency):
        return [several]
    if not isinstance(several, list | tuple | set):
        raise InvalidDag(
            f"{several!r} is no task, so nothing can come before or after it",
            hint="a function decorated with @task becomes a task when it is called",
        )
    return [one for part in several for one in each(part)]


def chain(*tasks: Dependency | Sequence[Dependency]) -> None:
    """One after the other. Two lists next to each other are connected pair by pair."""
    for before, after in pairwise(tasks):
        if isinstance(before, Dependency) or isinstance(after, Dependency):
            for one in each(before):
                one.set_downstream(after)
            continue
        if len(before) != len(after):
            raise InvalidDag(
                f"chain() has lists of {len(before)} and {len(after)} tasks next to each other",
                hint="give them the same length, or connect them with >>",
            )
        for first, second in zip(before, after, strict=True):
            first.set_downstream(second)
