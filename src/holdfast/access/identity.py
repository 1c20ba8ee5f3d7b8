"""Identities of the callers of a store."""

from __future__ import annotations

import getpass
from typing import Final, TypeAlias

import msgspec

from holdfast.errors import InvalidInput
from holdfast.model.entry import ApiWriter, TaskWriter
from holdfast.model.role import Role
from holdfast.model.run import Watch
from holdfast.model.scope import StoreScope, TaskScope
from holdfast.portable.identifier import is_uuid

INTENT_SUFFIX: Final = ".intent"
"""The suffix of the key of an entry that holds the intent of a job."""

Assets: TypeAlias = tuple[tuple[str | None, str | None], ...]
"""Assets by name and URI, as far as these are known."""


class TaskIdentity(msgspec.Struct, frozen=True, tag="task"):
    """One attempt of a task instance, and the assets that its task declares."""

    scope: TaskScope
    attempt: int
    assets: Assets = ()
    reports: bool = False
    """Whether it may read the tables of `portable.report_tables`, as the task's process may."""
    handle: bool = False
    """Whether its token was given to another process, which may not request tokens for jobs."""

    @property
    def writer(self) -> TaskWriter:
        return TaskWriter(self.scope, self.attempt)

    def __str__(self) -> str:
        return f"attempt {self.attempt} of {self.scope}"


class ChildIdentity(msgspec.Struct, frozen=True, tag="child"):
    """The process of an attempt under its supervisor, which starts and ends the attempt; and the
    assets that its task declares."""

    writer: TaskWriter
    assets: Assets = ()
    asset_ids: tuple[int, ...] = ()

    @property
    def scope(self) -> TaskScope:
        return self.writer.scope

    def __str__(self) -> str:
        return f"attempt {self.writer.attempt} of {self.writer}"


class WatcherIdentity(msgspec.Struct, frozen=True, tag="watcher"):
    """A watcher of one asset."""

    watch: Watch

    def __str__(self) -> str:
        return f"watcher {self.watch.watcher} of {self.watch.asset}"


class JobIdentity(msgspec.Struct, frozen=True, tag="job"):
    """A job that a task submitted and that outlives its attempts, while its intent is current."""

    scope: TaskScope
    key: str
    intent: str
    assets: Assets = ()

    def __post_init__(self) -> None:
        if not self.key.endswith(INTENT_SUFFIX) or not is_uuid(self.intent):
            raise InvalidInput(
                f"`{self.intent:.80}` under `{self.key:.80}` of {self.scope} is not a job's intent",
                hint=f"an intent is a UUID, stored under a key that ends in `{INTENT_SUFFIX}`",
            )

    @property
    def writer(self) -> TaskWriter:
        return TaskWriter(self.scope)

    def __str__(self) -> str:
        return f"job {self.intent} of {self.scope}"


class HandleIdentity(msgspec.Struct, frozen=True, tag="handle"):
    """The holder of a handle of one store, who writes in the name of the giving person or tool."""

    scope: StoreScope
    user: str = ""

    def __str__(self) -> str:
        return f"the handle of {self.scope}"


class WorkerIdentity(msgspec.Struct, frozen=True, tag="worker"):
    """A supervisor, which runs attempts and watchers of any DAG."""

    name: str

    def __str__(self) -> str:
        return f"worker {self.name}"


class UserIdentity(msgspec.Struct, frozen=True, tag="user"):
    """A person or tool."""

    user: str
    role: Role

    def __str__(self) -> str:
        return f"{self.role} {self.user}"


class CallbackIdentity(msgspec.Struct, frozen=True, tag="callback"):
    """A callback of a run, or of one of its attempts, which is over."""

    dag_id: str
    run_id: str
    task: ChildIdentity | None = None

    def __str__(self) -> str:
        return f"the callback of {self.task or f'run {self.dag_id}/{self.run_id}'}"


class ImportIdentity(msgspec.Struct, frozen=True, tag="import"):
    """The import of a DAG file."""

    def __str__(self) -> str:
        return "the import of a DAG file"


Identity: TypeAlias = (
    TaskIdentity
    | ChildIdentity
    | WatcherIdentity
    | JobIdentity
    | HandleIdentity
    | WorkerIdentity
    | UserIdentity
    | CallbackIdentity
    | ImportIdentity
)
Wanted: TypeAlias = TaskIdentity | JobIdentity | HandleIdentity
"""Identities that others may request a token for."""


def whoami() -> ApiWriter:
    """Return the person or service account that runs this process."""
    try:
        return ApiWriter(getpass.getuser())
    except (KeyError, OSError):
        return ApiWriter("unknown")
