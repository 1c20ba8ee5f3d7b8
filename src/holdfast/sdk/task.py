"""Tasks as functions: `@task`, `@task.pyspark`."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property, update_wrapper
from inspect import Parameter
from typing import TYPE_CHECKING, Any, ClassVar

from holdfast.errors import InvalidDag
from holdfast.sdk.asset import Asset, Metadata
from holdfast.sdk.context import KEYS, NOT_HERE, TaskContext, is_running
from holdfast.sdk.dag import current_dag
from holdfast.sdk.mapped import Expansion, MappedOperator, Source
from holdfast.sdk.operator import BaseOperator, with_defaults
from holdfast.sdk.xcomarg import XComArg

if TYPE_CHECKING:
    from holdfast.sdk.context import Context


class FunctionOperator(BaseOperator):
    """Calls a function with its arguments, and with the values of the context that it takes."""

    _label: ClassVar[str] = "@task"
    template_fields = ("op_args", "op_kwargs")

    def __init__(
        self,
        *,
        python_callable: Callable[..., Any],
        op_args: Sequence[Any] = (),
        op_kwargs: Mapping[str, Any] | None = None,
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        self.python_callable = python_callable
        self.op_args = tuple(op_args)
        self.op_kwargs = dict(op_kwargs or {})
        for value in (*self.op_args, *self.op_kwargs.values()):
            if isinstance(value, Asset) and value not in self.inlets:
                self.inlets.append(value)

    @classmethod
    def _templated_in(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
        for name, value in super()._templated_in(given):
            yield from value.items() if name == "op_kwargs" else [(name, value)]

    @classmethod
    def _filled(cls, shared: dict[str, Any], values: dict[str, Any]) -> dict[str, Any]:
        return {**shared, "op_kwargs": {**shared["op_kwargs"], **values}}

    def execute(self, context: Context) -> Any:
        function = self.python_callable
        given = inspect.signature(function).bind_partial(*self.op_args, **self.op_kwargs)
        known = context if isinstance(context, TaskContext) else TaskContext(context)
        injected = from_context(function, known, given.arguments)
        if inspect.isgeneratorfunction(function):
            return self._collect(function(*self.op_args, **self.op_kwargs, **injected), known)
        return function(*self.op_args, **self.op_kwargs, **injected)

    def _collect(self, steps: Any, context: TaskContext) -> Any:
        """Run a generator to its end, record the metadata that it yields, and return its result.

        Raise InvalidDag if it yields anything else.
        """
        while True:
            try:
                said = next(steps)
            except StopIteration as end:
                return end.value
            if not isinstance(said, Metadata):
                raise InvalidDag(
                    f"task `{self.task_id}` yielded {said!r}",
                    hint="a task yields only Metadata(asset, extra); return its result",
                )
            context["outlet_events"].note(said)


class SparkFunctionOperator(FunctionOperator):
    """A `FunctionOperator` with a Spark session in `spark`."""

    _label: ClassVar[str] = "@task.pyspark"
    uses_spark = True

    def __init__(
        self,
        *,
        conn_id: str | None = None,
        config_kwargs: Mapping[str, str] | None = None,
        **arguments: Any,
    ) -> None:
        """Initialize the operator.

        `conn_id` is accepted for pipelines of Airflow, and ignored: the settings locate Spark.
        """
        super().__init__(**arguments)
        self.config_kwargs = dict(config_kwargs or {})

    def pre_execute(self, context: Context) -> None:
        for name, value in self.config_kwargs.items():
            context["spark"].conf.set(name, value)


def from_context(
    function: Callable[..., Any], context: TaskContext, given: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the values of the context that a function takes by parameter names or by `**`.

    Raise KeyError if one of them is absent and the parameter has no default.
    """
    injected: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if parameter.kind is Parameter.VAR_KEYWORD:
            taken = {*given, *given.get(name, {}), *injected}
            injected |= {key: value for key, value in context.items() if key not in taken}
        elif name not in given and name in KEYS:
            if name in context:
                injected[name] = context[name]
            elif parameter.default is Parameter.empty:
                raise context.absent(name)
    return injected


class TaskFunction:
    """A decorated function. Calling it makes a task; `function` is the function itself."""

    def __init__(
        self,
        function: Callable[..., Any],
        operator: type[FunctionOperator],
        arguments: dict[str, Any],
        shared: dict[str, Any] | None = None,
    ) -> None:
        self.function = function
        self._operator = operator
        self._arguments = {"task_id": function.__name__, **arguments}
        self._shared = shared or {}
        self._where = f"task `{self._arguments['task_id']}`"
        update_wrapper(self, function)
        self._check_parameters()

    def __call__(self, *args: Any, **kwargs: Any) -> XComArg:
        if is_running():
            raise InvalidDag(
                f"{self._where} was called inside a running task",
                hint=f"call {self.function.__name__}.function(…) to run it here, or call the "
                "task in the DAG",
            )
        args, named = self._named(args)
        for name in named:
            if name in kwargs:
                raise InvalidDag(f"{self._where} was called with two values for `{name}`")
        named |= {**self._shared, **kwargs}
        self._check_call(args, named)
        return XComArg(self._operator(**self._placed(), op_args=args, op_kwargs=named))

    def override(self, **arguments: Any) -> TaskFunction:
        """Return the function with other arguments of the task: `task_id`, `retries` and so on."""
        changed = {**self._arguments, **arguments}
        return TaskFunction(self.function, self._operator, changed, self._shared)

    def partial(self, **shared: Any) -> TaskFunction:
        """Return the function with arguments that all instances of a mapped task share."""
        self._check_names(shared)
        return TaskFunction(
            self.function, self._operator, self._arguments, {**self._shared, **shared}
        )

    def expand(self, **mapped: Source) -> XComArg:
        """Map the task over each combination of the arguments' values; the last varies fastest."""
        self._check_names(mapped)
        self._check_missing({*self._shared, *mapped})
        return self._expand(Expansion(self._where, mapped))

    def expand_kwargs(self, mapped: Sequence[Mapping[str, Any]] | XComArg) -> XComArg:
        """Map the task over dicts of arguments."""
        return self._expand(Expansion(self._where, {}, mapped))

    def _expand(self, expansion: Expansion) -> XComArg:
        expansion.check_against(self._shared)
        shared = with_defaults(self._operator, {**self._placed(), "op_kwargs": self._shared})
        return XComArg(MappedOperator(self._operator, shared, expansion))

    def _placed(self) -> dict[str, Any]:
        """Return the arguments of the task, with an id that is free in its DAG."""
        dag = self._arguments.get("dag") or current_dag()
        task_id = self._arguments["task_id"]
        doc = self._arguments.get("doc_md") or self.function.__doc__
        return {
            **self._arguments,
            "python_callable": self.function,
            "task_id": dag.free_id(task_id) if dag and isinstance(task_id, str) else task_id,
            "doc_md": doc,
        }

    @cached_property
    def _parameters(self) -> Mapping[str, Parameter]:
        return inspect.signature(self.function).parameters

    def _check_parameters(self) -> None:
        if inspect.isasyncgenfunction(self.function):
            raise InvalidDag(
                f"{self._where} is an async generator", hint="return the result instead"
            )
        for name, parameter in self._parameters.items():
            if name in KEYS and parameter.default not in (Parameter.empty, None):
                raise InvalidDag(
                    f"{self._where}: its parameter `{name}` gets its value from the context, "
                    "and may not have a default",
                    hint="leave out the default, or rename the parameter",
                )

    def _check_names(self, given: Mapping[str, Any]) -> None:
        if any(one.kind is Parameter.VAR_KEYWORD for one in self._parameters.values()):
            return
        for name in given:
            if name not in self._parameters:
                raise InvalidDag(
                    f"{self._where} has no parameter `{name}`",
                    hint=f"it has {', '.join(self._parameters) or 'none'}",
                )

    def _named(self, args: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Assign positional arguments to the parameters that the context does not fill.

        `def load(spark, path)` is called as `load("s3://…")`. Raise InvalidDag if there are too
        many.
        """
        kinds = {parameter.kind for parameter in self._parameters.values()}
        if kinds & {Parameter.VAR_POSITIONAL, Parameter.POSITIONAL_ONLY}:
            return args, {}
        free = [
            name
            for name, parameter in self._parameters.items()
            if parameter.kind is Parameter.POSITIONAL_OR_KEYWORD and name not in KEYS
        ]
        if len(args) > len(free):
            raise InvalidDag(
                f"{self._where} was called with too many positional arguments",
                hint=f"it takes {', '.join(free) or 'none'}; the others come from the context",
            )
        return (), dict(zip(free, args, strict=False))

    def _check_call(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        try:
            given = inspect.signature(self.function).bind_partial(*args, **kwargs)
        except TypeError as error:
            raise InvalidDag(f"{self._where} was called with wrong arguments: {error}") from None
        self._check_missing(given.arguments)

    def _check_missing(self, given: Any) -> None:
        for name, parameter in self._parameters.items():
            needed = parameter.default is Parameter.empty and parameter.kind not in (
                Parameter.VAR_POSITIONAL,
                Parameter.VAR_KEYWORD,
            )
            if name in NOT_HERE and name not in given:
                raise InvalidDag(
                    f"{self._where}: Holdfast does not support its parameter `{name}`, "
                    "a key of Airflow's context",
                    hint=NOT_HERE[name],
                )
            if needed and name not in given and name not in KEYS:
                raise InvalidDag(f"{self._where} is missing its argument `{name}`")
            if needed and name == "spark" and name not in given and not self._operator.uses_spark:
                raise InvalidDag(
                    f"{self._where} has a parameter `spark`", hint="decorate it with @task.pyspark"
                )


class TaskDecorator:
    """`@task`, `@task(retries=3)`, `@task.pyspark`."""

    def __call__(self, function: Callable[..., Any] | None = None, **arguments: Any) -> Any:
        """Make a function a task."""
        return self._decorated(FunctionOperator, function, arguments)

    python = __call__

    def pyspark(self, function: Callable[..., Any] | None = None, **arguments: Any) -> Any:
        """Make a function a task that has a Spark session in its parameter `spark`."""
        return self._decorated(SparkFunctionOperator, function, arguments)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"Holdfast has no @task.{name}; it has @task and @task.pyspark", name=name, obj=self
        )

    def _decorated(
        self,
        operator: type[FunctionOperator],
        function: Callable[..., Any] | None,
        arguments: dict[str, Any],
    ) -> Any:
        if function is None:
            return lambda function: TaskFunction(function, operator, arguments)
        if not callable(function):
            raise InvalidDag(
                f"@task was given {function!r}", hint='use keyword arguments: @task(task_id="…")'
            )
        return TaskFunction(function, operator, arguments)


task = TaskDecorator()
