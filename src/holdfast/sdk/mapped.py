"""Mapped tasks, which run once for each of several values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from holdfast.errors import InvalidDag, InvalidType
from holdfast.model.dag import Axis, LiteralAxis, MappedSpec, ResultAxis
from holdfast.sdk.arguments import KNOWN, settle
from holdfast.sdk.node import TaskNode
from holdfast.sdk.operator import BaseOperator, arguments_of
from holdfast.sdk.reference import Reference, references_in, resolve
from holdfast.sdk.xcomarg import XComArg

if TYPE_CHECKING:
    from holdfast.sdk.context import Context

Source: TypeAlias = "Sequence[Any] | Mapping[Any, Any] | XComArg"


class Partial:
    """An operator with the arguments that all its map indices share, before `expand`."""

    def __init__(self, operator: type[BaseOperator], shared: dict[str, Any]) -> None:
        self._operator = operator
        self._shared = shared
        self._where = f"task `{shared.get('task_id')}`"
        if "task_id" not in shared:
            raise InvalidDag(f"{operator.__name__}.partial() has no task_id")
        self._check(shared)

    def expand(self, **mapped: Source) -> MappedOperator:
        """Map the task over each combination of the arguments' values; the last varies fastest."""
        self._check(mapped)
        return self._expand(Expansion(self._where, mapped))

    def expand_kwargs(self, mapped: Sequence[Mapping[str, Any]] | XComArg) -> MappedOperator:
        """Map the task over dicts of arguments."""
        return self._expand(Expansion(self._where, {}, mapped))

    def _check(self, given: Mapping[str, Any]) -> None:
        for name in given:
            if name not in arguments_of(self._operator):
                raise InvalidDag(f"{self._where} has no argument `{name}`")

    def _expand(self, expansion: Expansion) -> MappedOperator:
        expansion.check_against(self._shared)
        return MappedOperator(self._operator, self._shared, expansion)


class Expansion:
    """The arguments and values that a task is mapped over."""

    def __init__(
        self, where: str, named: Mapping[str, Source], whole: Source | None = None
    ) -> None:
        """Take arguments with what each is mapped over, or else one list of dicts of arguments.

        Raise InvalidDag for values that cannot be mapped over.
        """
        self._where = where
        self._axes: list[tuple[str | None, Source]] = list(named.items())
        if whole is not None:
            self._axes = [(None, whole)]
        if not self._axes:
            raise InvalidDag(f"{where}: expand() has no argument to map over")
        for name, source in self._axes:
            if not is_mappable(source):
                what = f"its argument `{name}`" if name else "expand_kwargs()"
                raise InvalidDag(
                    f"{where} is mapped over a {type(source).__name__} in {what}: {source!r}",
                    hint="give a list, a dict, or the result of another task",
                )
        if whole is not None and not isinstance(whole, XComArg):
            for item in whole:
                if not isinstance(item, Mapping | XComArg):
                    raise InvalidDag(
                        f"{where}: {item!r} is in expand_kwargs()",
                        hint="give a list of dicts of arguments",
                    )

    def check_against(self, shared: Mapping[str, Any]) -> None:
        """Raise InvalidDag for an argument that is both shared and mapped."""
        for name, _ in self._axes:
            if name is not None and name in shared:
                raise InvalidDag(f"{self._where}: `{name}` is both in partial() and in expand()")

    @property
    def spec(self) -> MappedSpec:
        return MappedSpec(tuple(_axis(source) for _, source in self._axes))

    @property
    def literals(self) -> dict[str, Any]:
        """The values of each argument, as far as they are literals in the file."""
        found: dict[str, Any] = {}
        for name, source in self._axes:
            if name is not None:
                found[name] = source
            elif not isinstance(source, XComArg):
                for item in source:
                    for key, value in item.items() if isinstance(item, Mapping) else ():
                        found.setdefault(key, []).append(value)
        return found

    def references(self) -> Iterator[Reference]:
        for _, source in self._axes:
            yield from references_in(source)

    def values(self, index: int, context: Context) -> dict[str, Any]:
        """Return the arguments of one map index. Raise InvalidDag if there is no such index."""
        found: dict[str, Any] = {}
        remaining = index
        for name, source in reversed(self._axes):
            items = self._items(source, context)
            if not items:
                raise self._gone(index)
            remaining, place = divmod(remaining, len(items))
            value = resolve(items[place], context)
            found |= {name: value} if name is not None else self._checked(value)
        if remaining:
            raise self._gone(index)
        return found

    def _items(self, source: Source, context: Context) -> list[Any]:
        value = source.resolve(context) if isinstance(source, XComArg) else source
        if not is_mappable(value):
            raise InvalidType(
                f"{self._where} is mapped over {source}, which is a {type(value).__name__}",
                hint="a mapped task needs a list or a dict: return one from the task that it "
                "is mapped over",
            )
        return list(value.items()) if isinstance(value, Mapping) else list(value)

    def _checked(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict):
            raise InvalidType(
                f"{self._where}: expand_kwargs() takes dicts of arguments, not {value!r}"
            )
        return value

    def _gone(self, index: int) -> InvalidDag:
        return InvalidDag(
            f"{self._where} no longer has map index {index}",
            hint="the list or dict that it is mapped over has become shorter since the run started",
        )


def _axis(source: Source) -> Axis:
    if isinstance(source, XComArg):
        return ResultAxis(source.operator.task_id, source.path)
    return LiteralAxis(len(source))


def is_mappable(value: Any) -> bool:
    """Return whether a value is a list, a mapping, or a result that will be one."""
    if isinstance(value, str | bytes | bytearray):
        return False
    return isinstance(value, XComArg | Sequence | Mapping)


class MappedOperator(TaskNode):
    """A mapped task. Each map index makes its own operator when it runs."""

    def __init__(
        self, operator: type[BaseOperator], shared: dict[str, Any], expansion: Expansion
    ) -> None:
        self._operator = operator
        self._shared = {name: value for name, value in shared.items() if name != "dag"}
        self._expansion = expansion
        self.uses_spark = operator.uses_spark
        task_id = shared["task_id"]
        arguments = {name: value for name, value in self._shared.items() if name in KNOWN}
        self._enter(task_id, shared.get("dag"), settle(f"task `{task_id}`", arguments))

    @property
    def _kind(self) -> str:
        return self._operator._label or self._operator.__name__

    @property
    def _mapped(self) -> MappedSpec:
        return self._expansion.spec

    def _templated(self) -> Iterator[tuple[str, Any]]:
        given = self._operator._filled(self._shared, self._expansion.literals)
        return self._operator._templated_in(given)

    @property
    def _template_endings(self) -> tuple[str, ...]:
        return tuple(self._operator.template_ext)

    def _references(self) -> Iterator[Reference]:
        yield from references_in(self._shared)
        yield from self._expansion.references()

    def _prepared(self, context: Context) -> BaseOperator:
        values = self._expansion.values(context["ti"].map_index, context)
        context["ti"].take_item(values)
        operator = self._operator(**self._operator._filled(self._shared, values))
        operator.dag = self.dag
        return operator._prepared(context)
