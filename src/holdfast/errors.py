"""All errors that Holdfast raises: one tree, one base.

Each class has its code (for HTTP bodies and clients), its HTTP status and its exit status. Each
message says what failed and where; the hint says what to do next.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import suppress
from importlib import import_module
from typing import Any, ClassVar, Final


class OneClass(type):
    """A metaclass that keeps one class of each name in a process.

    Spark ships the classes of this module to executors by value. Where Holdfast is installed there,
    `except` must match the shipped class and the installed one alike: they are the same.
    """

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> OneClass:
        """Return the installed class where there is one, instead of a copy of it."""
        if namespace.get("__module__") == __name__:
            if cls is OneClass:  # for ErrorClass, which comes first
                with suppress(ImportError):
                    import_module(__name__)
            installed = getattr(sys.modules.get(__name__), name, None)
            if isinstance(installed, type):
                return installed  # type: ignore[return-value]
        return super().__new__(cls, name, bases, namespace, **options)

    def __setattr__(cls, name: str, value: Any) -> None:
        """Ignore the attributes of a copy: a class of this module has its own."""
        if cls.__module__ != __name__ or name not in vars(cls):
            super().__setattr__(name, value)


class ErrorClass(OneClass, metaclass=OneClass):
    """The class of error classes. It exists once as well: a class that inherits from an installed
    one must have its metaclass."""


class HoldfastError(Exception, metaclass=ErrorClass):
    """Base of all errors of Holdfast."""

    code: ClassVar[str] = "error"
    status: ClassVar[int] = 500
    exit_status: ClassVar[int] = 1

    def __init__(self, message: str, *, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.message}\nhint: {self.hint}" if self.hint else self.message

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.hint)


def _rebuild(kind: type[HoldfastError], message: str, hint: str) -> HoldfastError:
    return kind(message, hint=hint)


class InvalidInput(HoldfastError, ValueError):
    """A key, value, retention or id that may not be stored."""

    code = "invalid"
    status = 422
    exit_status = 2


class InvalidType(HoldfastError, TypeError):
    """Input of a type that cannot be stored or compared."""

    code = "invalid_type"
    status = 422
    exit_status = 2


class ValueTooLarge(InvalidInput):
    """A person wrote a value over `max_value_storage_bytes`."""

    code = "too_large"


class InvalidSettings(HoldfastError, ValueError):
    """A setting that is unknown or has a bad value."""

    code = "invalid_settings"
    exit_status = 2


class InvalidDag(HoldfastError, ValueError):
    """A DAG that cannot be run as it is defined."""

    code = "invalid_dag"
    status = 422
    exit_status = 2


class OutsideTask(HoldfastError, RuntimeError):
    """A feature of running tasks or watchers was used outside of one."""

    code = "outside_task"


class MissingKey(HoldfastError, KeyError):
    """The context of a task has no such key, in this task or this run."""

    code = "missing_key"


class UndeclaredAsset(HoldfastError, KeyError):
    """A task asked for the store of an asset that is not among its inlets and outlets."""

    code = "undeclared_asset"
    status = 403


class NotFound(HoldfastError, LookupError):
    """The named resource does not exist."""

    code = "not_found"
    status = 404


class UnknownTaskInstance(NotFound):
    """No run has registered this task instance."""

    code = "unknown_task_instance"


class UnknownAsset(NotFound):
    """No DAG declares this asset, and nobody declared it by hand."""

    code = "unknown_asset"


class HistoryGone(NotFound):
    """The requested version is not, or no longer, in the history."""

    code = "history_gone"


class Conflict(HoldfastError):
    """The write was refused because of what the store holds; nothing was written."""

    code = "conflict"
    status = 409


class VersionConflict(Conflict):
    """The entry's version is not the one that `if_version` named."""

    code = "version_conflict"


class StaleAttempt(Conflict):
    """The attempt has ended or a newer one has started; it may not write any more."""

    code = "stale_attempt"


class AssetInactive(Conflict):
    """Every DAG stopped declaring the asset; its state may be read but not written."""

    code = "asset_inactive"


class NoFreeSlot(Conflict):
    """The pool of a task has too few free slots, or does not exist; the task waits."""

    code = "no_free_slot"


class StaleRequest(Conflict):
    """The client has sent a later request; this one arrived too late to be executed."""

    code = "stale_request"


class NoToken(HoldfastError, PermissionError):
    """A request to the server without a token, or to the public API with an invalid one."""

    code = "unauthorized"
    status = 401


class Forbidden(HoldfastError, PermissionError):
    """A token that is not valid, or that does not allow the request."""

    code = "forbidden"
    status = 403


class TokenRefused(Forbidden):
    """A worker's token that is not valid or has expired; a new one may be accepted."""

    code = "token_refused"


class TooManyRequests(HoldfastError):
    """A token exceeds the server's rate limit."""

    code = "too_many_requests"
    status = 429


class RequestRefused(HoldfastError):
    """A request that the server does not read: of the wrong type, or not valid HTTP."""

    code = "bad_request"
    status = 400


class RequestTooLarge(RequestRefused):
    """A request whose body is over the server's limit."""

    code = "request_too_large"
    status = 413


class RequestHeadTooLarge(RequestRefused):
    """A request whose head is over the server's limit."""

    code = "head_too_large"
    status = 431


class WrongContentType(RequestRefused):
    """A request whose body has an unsupported content type."""

    code = "wrong_content_type"
    status = 415


class RequestTooSlow(RequestRefused):
    """A request that did not arrive in time."""

    code = "request_too_slow"
    status = 408


class NotSupported(HoldfastError, NotImplementedError):
    """The configured backend cannot do this."""

    code = "not_supported"
    status = 501


class BackendFailed(HoldfastError):
    """A custom backend raised an exception, or returned an invalid value."""

    code = "backend_failed"
    status = 502


class ObjectMissing(BackendFailed):
    """The object of a reference is not in the object storage."""

    code = "object_missing"


class ObjectBusy(HoldfastError):
    """An object that is about to be written is being deleted, because nothing referred to it."""

    code = "object_busy"
    status = 409


class InvalidBackend(HoldfastError, TypeError):
    """The configured backend is not a class that Holdfast can use."""

    code = "invalid_backend"
    exit_status = 2


class StoreUnavailable(HoldfastError, ConnectionError):
    """The database or server does not answer, or cannot be written to at the moment."""

    code = "unavailable"
    status = 503


class StoreFailed(HoldfastError):
    """The database refused a statement for a reason other than the caller's input."""

    code = "store_failed"


class UnreadableValue(StoreFailed):
    """An entry holds text that is not JSON."""

    code = "unreadable_value"


class InvalidUrl(HoldfastError, ValueError):
    """A URL that is malformed, or that is not one of a database or a Holdfast server."""

    code = "invalid_url"


class SchemaMismatch(HoldfastError):
    """The database's schema is not the one this version of Holdfast works with."""

    code = "schema_mismatch"
    status = 503


class MissingDependency(HoldfastError, ImportError):
    """An optional package is needed and not installed."""

    code = "missing_dependency"


class ForeignPackage(HoldfastError, ImportError):
    """Another project's package named `holdfast` is installed over this one."""

    code = "foreign_package"


class SparkUnavailable(HoldfastError):
    """Spark cannot be started, or does not answer."""

    code = "spark_unavailable"
    status = 503


class CheckFailed(HoldfastError):
    """The rows of a load do not satisfy its checks."""

    code = "check_failed"
    status = 422


class SourceChanged(HoldfastError):
    """The source of a load has changed in a way that the load cannot follow."""

    code = "source_changed"
    status = 409


class TableChanged(HoldfastError):
    """A lake table or its history is not as a load or an incremental read needs it."""

    code = "table_changed"
    status = 409


class SparkBusy(HoldfastError):
    """Spark work of an earlier attempt of the task has not ended, or its status is unknown."""

    code = "spark_busy"
    status = 503


class AlertNotDelivered(HoldfastError):
    """The webhook or the callback of alerts did not take an alert."""

    code = "alert_not_delivered"
    status = 502


class RunnerFailed(HoldfastError):
    """The processes that run tasks end right after they are started."""

    code = "runner_failed"


def _tree(kind: type[HoldfastError]) -> Iterator[type[HoldfastError]]:
    yield kind
    for narrower in kind.__subclasses__():
        yield from _tree(narrower)


KINDS: Final[Mapping[str, type[HoldfastError]]] = {kind.code: kind for kind in _tree(HoldfastError)}
"""The classes above by their code."""
