"""The `@asset` decorator, which makes the asset, a DAG, and the task that writes it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from inspect import Parameter
from typing import Any, ClassVar, Unpack

from holdfast.errors import InvalidDag
from holdfast.sdk.asset import Asset, AssetAlias, AssetAll, AssetRef, AssetWatcher
from holdfast.sdk.context import KEYS, NOT_HERE, Context
from holdfast.sdk.dag import DAG, DagArguments
from holdfast.sdk.task import FunctionOperator, TaskFunction

_GIVEN = ("self", "context")


class AssetOperator(FunctionOperator):
    """Calls the function of an asset.

    Its parameter `self` is the asset, and `context` the context. A parameter with another name,
    unless it is a key of the context, is the asset of that name.
    """

    _label: ClassVar[str] = "@asset"

    def __init__(self, *, definition: Any, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.definition = definition

    def execute(self, context: Context) -> Any:
        special = {"self": self.definition, "context": context}
        named = {str(ref.name): ref for ref in self.inlets if isinstance(ref, AssetRef)}
        wanted = inspect.signature(self.python_callable).parameters
        given: dict[str, Any] = {**named, **special}
        self.op_kwargs = {name: value for name, value in given.items() if name in wanted}
        return super().execute(context)


def _inlets(function: Callable[..., Any]) -> list[AssetRef]:
    return [
        Asset.ref(name=name)
        for name, parameter in inspect.signature(function).parameters.items()
        if name not in _GIVEN
        and name not in KEYS
        and parameter.default is Parameter.empty
        and parameter.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    ]


def _make_dag(
    function: Callable[..., Any] | TaskFunction,
    definition: Asset | AssetAll,
    outlets: Sequence[Asset | AssetAlias],
    dag_id: str,
    arguments: DagArguments,
) -> None:
    if "schedule" not in arguments:
        raise InvalidDag(
            f"asset function `{_name(function)}` has no schedule",
            hint="use schedule=None for runs that are started manually",
        )
    with DAG(dag_id, **arguments):
        if isinstance(function, TaskFunction):
            function.override(outlets=list(outlets))()
            return
        for name in inspect.signature(function).parameters:
            if name in NOT_HERE:
                raise InvalidDag(
                    f"asset function `{_name(function)}`: Holdfast does not support its parameter "
                    f"`{name}`, a key of Airflow's context",
                    hint=NOT_HERE[name],
                )
        AssetOperator(
            task_id=function.__name__,
            python_callable=function,
            definition=definition,
            inlets=_inlets(function),
            outlets=list(outlets),
            doc_md=function.__doc__,
        )


class AssetDecorator:
    """`@asset(schedule="@daily")`: the function writes the asset that has its name."""

    def __call__(
        self,
        *,
        name: str | None = None,
        uri: str | None = None,
        group: str = "asset",
        extra: dict[str, Any] | None = None,
        watchers: Sequence[AssetWatcher] = (),
        dag_id: str | None = None,
        **arguments: Unpack[DagArguments],
    ) -> Callable[[Callable[..., Any]], Asset]:
        def decorate(function: Callable[..., Any]) -> Asset:
            own = Asset(name or _name(function), uri, group=group, extra=extra, watchers=watchers)
            _make_dag(function, own, [own], dag_id or own.name, arguments)
            return own

        return decorate

    def multi(
        self,
        *,
        outlets: Sequence[Asset | AssetAlias],
        dag_id: str | None = None,
        **arguments: Unpack[DagArguments],
    ) -> Callable[[Callable[..., Any]], AssetAll]:
        """Decorate a function that writes several assets. Raise InvalidDag without outlets."""

        def decorate(function: Callable[..., Any]) -> AssetAll:
            if not outlets:
                raise InvalidDag(f"@asset.multi `{_name(function)}` has no outlets")
            both = AssetAll(*outlets)
            _make_dag(function, both, outlets, dag_id or _name(function), arguments)
            return both

        return decorate


def _name(function: Callable[..., Any]) -> str:
    return function.__name__


asset = AssetDecorator()
