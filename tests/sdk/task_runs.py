"""Runs of DAG files for tests: a store with results, and a runner without processes."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from textwrap import dedent
from typing import Any, TypeVar, cast

import msgspec

from holdfast import commands as c
from holdfast.accessor.binding import Rules
from holdfast.commands import Emit, GetResults, PutResult, RunEvents, TakeItem
from holdfast.model.dag import CallbackKind, DagSpec
from holdfast.model.entry import TaskWriter
from holdfast.model.run import AssetEvent, Run, RunKind, RunState, Watch
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.runner.protocol.messages import (
    CallbackStartup,
    Failed,
    Skipped,
    Succeeded,
    TaskStartup,
    WatchStartup,
)
from holdfast.runner.task.dag_import import load_file
from holdfast.runner.task.execution import call_back, execute
from holdfast.runner.task.watching import watch
from holdfast.store import Store
from holdfast.testing.memory_store import MemoryStore

A = TypeVar("A")

RUN_ID = "run-1"


class RunStore(Store):
    """Store in memory that also executes the commands of tasks and watchers about a run."""

    def __init__(self) -> None:
        self.inner = MemoryStore()
        self.results: dict[tuple[str, str, int], str] = {}
        self.items: dict[TaskScope, str] = {}
        self.aliases: dict[str, list[str]] = {}
        self.run_events: list[AssetEvent] = []
        self.emits: list[Emit] = []

    def execute(self, command: c.Command[A]) -> A:
        match command:
            case GetResults():
                answer: Any = tuple(
                    (at, text)
                    for (task_id, key, at), text in sorted(self.results.items())
                    if (task_id, key) == (command.task_id, command.key)
                    and command.map_index in (None, at)
                )
            case PutResult():
                scope = command.writer.scope
                self.results[scope.task_id, command.key, scope.map_index] = command.value
                answer = None
            case TakeItem():
                before = self.items.get(command.writer.scope)
                self.items[command.writer.scope] = command.digest
                answer = before not in (None, command.digest)
                if answer:
                    self.inner.execute(c.Clear(command.writer.scope, command.writer))
            case RunEvents():
                answer = tuple(self.run_events)
            case Emit():
                for write in command.writes:
                    self.inner.execute(write)
                self.emits.append(command)
                answer = None
            case _:
                answer = self.inner.execute(command)
        return cast(A, answer)


@dataclass
class Pipeline:
    """One DAG file, and one run of each of its DAGs."""

    file: str
    store: RunStore = field(default_factory=RunStore)
    conf: dict[str, Any] = field(default_factory=dict)
    logical_date: datetime | None = None

    @property
    def specs(self) -> list[DagSpec]:
        specs = [dag.spec(self.file) for dag in load_file(self.file)]
        for spec in specs:
            assets = tuple((asset.name, asset.uri) for asset in spec.assets)
            self.store.execute(c.DeclareDagAssets(spec.dag_id, assets))
        return specs

    @property
    def spec(self) -> DagSpec:
        (spec,) = self.specs
        return spec

    def run_of(self, dag_id: str) -> Run:
        return Run(
            dag_id=dag_id,
            run_id=RUN_ID,
            kind=RunKind.MANUAL,
            state=RunState.RUNNING,
            logical_date=self.logical_date,
            data_interval_start=self.logical_date,
            data_interval_end=self.logical_date,
            conf=msgspec.json.encode(self.conf).decode(),
            created_at=datetime(2026, 1, 1, tzinfo=UTC),
        )

    def startup(self, task_id: str, map_index: int = -1) -> TaskStartup:
        """Begin the next attempt of a task."""
        dag_id = next(spec.dag_id for spec in self.specs if spec.task(task_id))
        scope = TaskScope(dag_id, RUN_ID, task_id, map_index)
        self.store.execute(c.RegisterTask(scope))
        number = self.store.execute(c.StartAttempt(scope))
        return TaskStartup(
            file=self.file,
            writer=TaskWriter(scope, number),
            run=self.run_of(dag_id),
            max_tries=3,
            rules=Rules(),
            aliases={
                alias: tuple(AssetScope(name=name) for name in names)
                for alias, names in self.store.aliases.items()
            },
        )

    def run(self, task_id: str, map_index: int = -1) -> Succeeded | Skipped | Failed:
        """Run one attempt of a task, and record how it ended."""
        startup = self.startup(task_id, map_index)
        report = execute(startup, self.store)
        succeeded = isinstance(report, Succeeded)
        self.store.execute(c.FinishAttempt(startup.writer, succeeded))
        if isinstance(report, Succeeded) and report.result is not None:
            self.store.execute(PutResult(startup.writer, "return_value", report.result))
        return report

    def result(self, task_id: str, map_index: int = -1) -> Any:
        """Run a task, and return its result."""
        report = self.run(task_id, map_index)
        assert isinstance(report, Succeeded), report
        return None if report.result is None else msgspec.json.decode(report.result)

    def failure(self, task_id: str, map_index: int = -1) -> str:
        """Run a task, and return its error."""
        report = self.run(task_id, map_index)
        assert isinstance(report, Failed), report
        return report.error

    def call_back(
        self, kind: CallbackKind, task_id: str | None = None, failed: Failed | None = None
    ) -> None:
        dag_id = self.specs[0].dag_id
        call_back(
            CallbackStartup(
                file=self.file,
                run=self.run_of(dag_id),
                kind=kind,
                task=self.startup(task_id) if task_id else None,
                error=failed.error if failed else "",
                exception=failed.exception if failed else None,
            ),
            self.store,
        )

    def watch(self, asset: str, watcher: str) -> None:
        """Run a watcher to its end."""
        spec = self.specs[0]
        watched = Watch(AssetScope(name=asset), watcher, 1)
        watch(
            WatchStartup(file=self.file, dag_id=spec.dag_id, watch=watched, rules=Rules()),
            self.store,
        )

    def asset_value(self, name: str, key: str) -> Any:
        text = self.store.execute(c.Get(AssetScope(name=name), key))
        return None if text is None else msgspec.json.decode(text)

    def task_value(self, task_id: str, key: str, map_index: int = -1) -> Any:
        dag_id = next(spec.dag_id for spec in self.specs if spec.task(task_id))
        text = self.store.execute(c.Get(TaskScope(dag_id, RUN_ID, task_id, map_index), key))
        return None if text is None else msgspec.json.decode(text)


def write_file(folder: Path, text: str, name: str = "pipeline.py") -> str:
    file = folder / name
    file.write_text(dedent(text))
    return str(file)
