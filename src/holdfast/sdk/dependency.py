"""Dependencies between tasks: `>>`, `<<` and `chain`."""

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
    """A task or its result, which other tasks can come before and after.

    Operators of users inherit from this, so internal names begin with an underscore.
    """

    @property
    @abstractmethod
    def _node(self) -> TaskNode:
        """The task."""

    def set_downstream(self, other: Several) -> None:
        """Make the other task, or each of several, wait for this one."""
        for one in each(other):
            one._node._follow(self._node)

    def set_upstream(self, other: Several) -> None:
        """Make this task wait for the other, or for each of several."""
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
    """Return one task, or nested lists of tasks, as a list. Raise InvalidDag for anything else."""
    if isinstance(several, Dependency):
        return [several]
    if not isinstance(several, list | tuple | set):
        raise InvalidDag(
            f"{several!r} is not a task, so it cannot have dependencies",
            hint="a function decorated with @task becomes a task when it is called",
        )
    return [one for part in several for one in each(part)]


def chain(*tasks: Dependency | Sequence[Dependency]) -> None:
    """Connect tasks one after the other; two adjacent lists are connected pair by pair.

    Raise InvalidDag if adjacent lists differ in length.
    """
    for before, after in pairwise(tasks):
        if isinstance(before, Dependency) or isinstance(after, Dependency):
            for one in each(before):
                one.set_downstream(after)
            continue
        if len(before) != len(after):
            raise InvalidDag(
                f"chain() has adjacent lists of {len(before)} and {len(after)} tasks",
                hint="give them the same length, or connect them with >>",
            )
        for first, second in zip(before, after, strict=True):
            first.set_downstream(second)
