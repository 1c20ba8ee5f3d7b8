"""OpenTelemetry traces, from runs to attempts to commands of the store. Off unless configured."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import entry_points
from typing import Any, Final

from holdfast.errors import InvalidSettings, MissingDependency
from holdfast.settings import Tracing
from holdfast.version import __version__

VARIABLE: Final = "TRACEPARENT"
"""The variable in a task's environment with the context of its attempt."""
HEADER: Final = "traceparent"
_EXPORTERS: Final = "OTEL_TRACES_EXPORTER"

_tracer: Any = None
"""None while tracing is off."""


def configure(settings: Tracing) -> None:
    """Turn tracing on in this process, if it is enabled or the process has a tracer provider.

    Raise MissingDependency if it is enabled and a package is missing, and InvalidSettings if there
    is no such exporter.
    """
    global _tracer
    if not settings.enabled and "opentelemetry.trace" not in sys.modules:
        return
    try:
        from opentelemetry import trace

        provider = trace.get_tracer_provider()
        configured = not isinstance(provider, trace.ProxyTracerProvider)
        if settings.enabled and not configured:
            _install_provider()
    except ModuleNotFoundError as error:
        raise MissingDependency(
            f"tracing is enabled, and the package {error.name} is not installed",
            hint='pip install "holdfast-state[tracing]"',
        ) from None
    if settings.enabled or configured:
        _tracer = trace.get_tracer("holdfast", __version__)


def _install_provider() -> None:
    """Set up OpenTelemetry's SDK by its own environment variables."""
    from opentelemetry import trace
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    named = {} if "OTEL_SERVICE_NAME" in os.environ else {"service.name": "holdfast"}
    provider = TracerProvider(resource=Resource.create(named))
    known = {one.name: one for one in entry_points(group="opentelemetry_traces_exporter")}
    for name in os.environ.get(_EXPORTERS, "otlp").split(","):
        if name not in (*known, "none"):
            raise InvalidSettings(
                f"tracing is enabled, and there is no exporter `{name}`, named by {_EXPORTERS}",
                hint=f"installed: {', '.join(sorted(known))}; `otlp` needs the package "
                "opentelemetry-exporter-otlp",
            )
        if name != "none":
            provider.add_span_processor(BatchSpanProcessor(known[name].load()()))
    trace.set_tracer_provider(provider)


def is_on() -> bool:
    return _tracer is not None


class Span:
    """A span, or none while tracing is off."""

    def __init__(self, span: Any = None) -> None:
        self._span = span

    @property
    def traceparent(self) -> str:
        """The span's context as W3C's header has it; empty while tracing is off."""
        if self._span is None:
            return ""
        context = self._span.get_span_context()
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def note(self, error: str = "", **attributes: Any) -> None:
        """Add facts; an error marks the span as failed."""
        if self._span is None:
            return
        self._span.set_attributes(_named(attributes))
        if error:
            from opentelemetry.trace import Status, StatusCode

            self._span.set_status(Status(StatusCode.ERROR, error))

    def end(self) -> None:
        if self._span is not None:
            self._span.end()


def begin(name: str, **attributes: Any) -> Span:
    """Begin a span that has no parent; the caller ends it."""
    if _tracer is None:
        return Span()
    from opentelemetry.context import Context

    return Span(_tracer.start_span(name, Context(), attributes=_named(attributes)))


@contextmanager
def span(name: str, parent: str = "", **attributes: Any) -> Iterator[Span]:
    """Yield a span around the block, below the one with that `traceparent`, or else below the
    current one. An exception marks it as failed."""
    if _tracer is None:
        yield Span()
        return
    context = _context(parent) if parent else None
    with _tracer.start_as_current_span(name, context, attributes=_named(attributes)) as current:
        yield Span(current)


def enter(traceparent: str) -> None:
    """Make a span the parent of all that this process traces, and of programs that it starts."""
    os.environ[VARIABLE] = traceparent
    if _tracer is not None:
        from opentelemetry import context

        context.attach(_context(traceparent))


def headers() -> dict[str, str]:
    """Return the headers that pass the current span on with a request."""
    if _tracer is None:
        return {}
    from opentelemetry import trace

    current = trace.get_current_span()
    if not current.get_span_context().is_valid:
        return {}
    return {HEADER: Span(current).traceparent}


def trace_id() -> str:
    """Return the id of the trace that this process was started in; empty if it is not traced."""
    version, _, rest = os.environ.get(VARIABLE, "").partition("-")
    found = rest.partition("-")[0]
    return found if version == "00" and len(found) == 32 and found.isalnum() else ""


def _named(attributes: dict[str, Any]) -> dict[str, Any]:
    return {f"holdfast.{name}": value for name, value in attributes.items()}


def _context(traceparent: str) -> Any:
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return TraceContextTextMapPropagator().extract({HEADER: traceparent})
