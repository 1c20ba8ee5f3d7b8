"""Execution of a task or of callbacks, in their own process."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from holdfast.errors import (
    HoldfastError,
    InvalidDag,
    InvalidInput,
    InvalidType,
    SparkBusy,
    StoreUnavailable,
)
from holdfast.model.value import encode
from holdfast.monitoring import tracing
from holdfast.runner.protocol.messages import (
    CallbackStartup,
    Done,
    Failed,
    Skipped,
    Succeeded,
    TaskStartup,
)
from holdfast.runner.task.context_building import run_context, task_context
from holdfast.runner.task.dag_import import find_dag, own_modules
from holdfast.runner.task.tracebacks import one_line, pickled, printable, trimmed
from holdfast.sdk.arguments import Callback
from holdfast.sdk.asset import Metadata
from holdfast.sdk.context import TaskContext, entered
from holdfast.sdk.exceptions import AirflowFailException, AirflowSkipException
from holdfast.sdk.node import params_of, prepare, settings_of
from holdfast.sdk.operator import BaseOperator
from holdfast.sdk.param import check_values
from holdfast.settings import Tracing
from holdfast.store import Store
from holdfast.stores.offload.reference_store import ReferenceStore

if TYPE_CHECKING:
    from holdfast.sdk.context import Context
    from holdfast.sdk.dag import DAG

log = logging.getLogger("holdfast.task")


def execute(startup: TaskStartup, store: Store) -> Succeeded | Skipped | Failed:
    """Run one attempt of a task instance and return its report."""
    scope = startup.writer.scope
    if startup.traceparent:
        tracing.configure(Tracing())
        tracing.enter(startup.traceparent)
    if startup.spark is not None:
        # Functions and columns that the file creates on import are then those of Spark Connect.
        os.environ["SPARK_CONNECT_MODE_ENABLED"] = "1"
    try:
        dag = find_dag(startup.file, scope.dag_id, scope.task_id)
    except (Exception, SystemExit) as error:
        return _report_failure(error, "the DAG file cannot be imported", file_is_broken=True)
    try:
        return _run_attempt(startup, store, dag)
    except AirflowSkipException as skip:
        log.info("skipped: %s", skip)
        return Skipped(printable(str(skip)))
    except (Exception, SystemExit) as error:
        return _report_failure(error, "the task failed")


def _report_failure(error: BaseException, what: str, *, file_is_broken: bool = False) -> Failed:
    _log_exception(what, error)
    return Failed(
        error=one_line(error),
        may_retry=not isinstance(error, AirflowFailException),
        exception=pickled(error),
        spark_is_busy=isinstance(error, SparkBusy),
        file_is_broken=file_is_broken,
        store_was_away=isinstance(error, StoreUnavailable),
    )


def _run_attempt(startup: TaskStartup, store: Store, dag: DAG) -> Succeeded:
    task = dag.get_task(startup.writer.scope.task_id)
    store = startup.rules.offloading.over(store)
    context = task_context(startup, store, dag, task)
    context["outlet_events"].resolve(store)
    check_values(params_of(task), context["params"])
    operator = prepare(task, cast("Context", context))
    context["task"] = context["ti"].task = operator
    with _spark_session(startup, context, operator), entered(context):
        for callback in settings_of(task).callbacks.get("execute", ()):
            _run_callback(callback, context)
        result = _execute_operator(operator, context)
    events = context["outlet_events"]
    said = result if isinstance(result, list) else [result]
    if any(isinstance(one, Metadata) for one in said):
        for one in said:
            if not isinstance(one, Metadata):
                raise InvalidType(
                    f"task `{task.task_id}` returned Metadata together with {one!r}",
                    hint="yield Metadata(asset, extra), and return the result",
                )
            events.note(one)
        result = None
    keeps = settings_of(operator).keeps_result and result is not None
    succeeded = Succeeded(
        result=_encode_result(task.task_id, result) if keeps else None, events=events.emitted()
    )
    if isinstance(store, ReferenceStore):
        store.before_success(startup.writer)
    return succeeded


def _execute_operator(operator: BaseOperator, context: TaskContext) -> Any:
    known = cast("Context", context)
    try:
        operator.pre_execute(known)
        result = operator.execute(known)
        if inspect.iscoroutine(result):
            result = asyncio.run(result)
        operator.post_execute(known, result)
    except (Exception, SystemExit) as error:
        if type(error) is KeyError and error.args and context.might_have(error.args[0]):
            # A function that takes `**context` gets a plain dict, whose KeyError explains nothing.
            error.add_note(str(context.absent(error.args[0])))
        raise
    except BaseException:
        # The task is being stopped from outside.
        try:
            operator.on_kill()
        except Exception:
            log.exception("on_kill failed")
        raise
    return result


@contextmanager
def _spark_session(
    startup: TaskStartup, context: TaskContext, operator: BaseOperator
) -> Iterator[None]:
    """Put a Spark session into the context if the task uses Spark.

    Raise InvalidDag if the run has no Spark.
    """
    if not operator.uses_spark:
        yield
        return
    if startup.spark is None:
        raise InvalidDag(
            f"task `{operator.task_id}` needs Spark, and none is configured for this run",
            hint="check the [spark] settings",
        )
    from pyspark import cloudpickle

    from holdfast.spark.session.session import task_session
    from holdfast.spark.source.registration import register_in_task

    # Executors cannot import the DAG file or the modules beside it, so what they need of these is
    # pickled with the functions.
    register = cast(Callable[[ModuleType], None], cloudpickle.register_pickle_by_value)
    for module in own_modules(startup.file):
        register(module)
    begun = startup.run.created_at
    with task_session(startup.spark, context["task_store"], startup.writer, begun) as session:
        register_in_task(session, context["task_store"])
        context["spark"] = session
        yield


def _encode_result(task_id: str, result: Any) -> str:
    """Return a task's result as JSON. Raise InvalidInput or InvalidType if that is not possible.

    Errors name the task and the path inside the result.
    """
    if type(result).__name__ == "DataFrame":
        raise InvalidType(
            f"task `{task_id}` returned a DataFrame: write the data, and return its path",
            hint="results are stored with the run, as JSON",
        )
    try:
        return encode(result)
    except (InvalidInput, InvalidType) as error:
        hint = error.hint.replace("store", "return")
        raise type(error)(f"the result of task `{task_id}`: {error.message}", hint=hint) from None


def call_back(startup: CallbackStartup, store: Store) -> Done | Failed:
    """Call the callbacks of a task or DAG. One that fails is logged, and does not stop others."""
    task_id = startup.task.writer.scope.task_id if startup.task else None
    try:
        dag = find_dag(startup.file, startup.run.dag_id, task_id)
    except (Exception, SystemExit) as error:
        return _report_failure(error, "the DAG file cannot be imported", file_is_broken=True)
    if startup.task is None:
        context = run_context(startup.run, store, dag, dag.params)
        callbacks = dag.callbacks.get(startup.kind, ())
    else:
        task = dag.get_task(startup.task.writer.scope.task_id)
        try:
            store = startup.task.rules.offloading.over(store)
        except HoldfastError as error:
            log.warning("the callback cannot read offloaded values: %s", error)
        context = task_context(startup.task, store, dag, task)
        callbacks = settings_of(task).callbacks.get(startup.kind, ())
    context["reason"] = startup.error
    context["exception"] = _restore_exception(startup)
    for callback in callbacks:
        _run_callback(callback, context)
    return Done()


def _run_callback(callback: Callback, context: TaskContext) -> None:
    try:
        with entered(context):
            answer = callback(context)
            if inspect.iscoroutine(answer):
                asyncio.run(answer)
    except (Exception, SystemExit, KeyboardInterrupt) as error:
        name = getattr(callback, "__name__", repr(callback))
        _log_exception(f"the callback {name} failed", error)


def _log_exception(what: str, error: BaseException) -> None:
    log.error("%s", what, exc_info=(type(error), error, trimmed(error)))


def _restore_exception(startup: CallbackStartup) -> BaseException | str | None:
    if startup.exception is not None:
        try:
            # The task's own process has pickled it.
            return cast(BaseException, pickle.loads(startup.exception))  # noqa: S301
        except Exception:
            log.debug("the task's exception could not be restored", exc_info=True)
    return startup.error or None
