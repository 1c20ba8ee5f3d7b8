"""Permissions of each identity, and the writer that it is recorded as."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from holdfast import commands as c
from holdfast.access.identity import (
    CallbackIdentity,
    ChildIdentity,
    HandleIdentity,
    Identity,
    JobIdentity,
    TaskIdentity,
    UserIdentity,
    WatcherIdentity,
    WorkerIdentity,
)
from holdfast.access.issuing import issuing
from holdfast.access.permissions import authorized, signed
from holdfast.commands import CurrentIntent, Guarded, LiveAttempt, LiveWatch
from holdfast.errors import Forbidden, InvalidInput
from holdfast.model.entry import ApiWriter, TaskWriter, WatcherWriter
from holdfast.model.role import Role
from holdfast.model.run import EmittedEvent, Ending, Outcome, Process, RunState, TaskState, Watch
from holdfast.model.scope import AssetScope, TaskScope

SCOPE = TaskScope("sales", "monday", "load")
OTHER = TaskScope("sales", "monday", "report")
ORDERS = AssetScope(name="orders")
SECRET = AssetScope(name="secret")
WATCH = Watch(AssetScope(name="orders", uri="s3://orders"), "poll", 3)
TASK = TaskIdentity(SCOPE, 2, (("orders", "s3://orders"),))
INTENT = "0b6f1f4e-2f7c-4f43-9a55-0f2a9d3c1e10"
JOB = JobIdentity(SCOPE, "job.intent", INTENT, (("orders", "s3://orders"),))
CHILD = ChildIdentity(TaskWriter(SCOPE, 2), (("orders", "s3://orders"),), (7,))
TASK_CALLBACK = CallbackIdentity("sales", "monday", CHILD)
RUN_CALLBACK = CallbackIdentity("sales", "monday")
HANDLE = HandleIdentity(SCOPE, "ann")
ASSET_HANDLE = HandleIdentity(AssetScope(name="orders", uri="s3://orders"), "ann")
WATCHER = WatcherIdentity(WATCH)
WORKER = WorkerIdentity("w1")
EDITOR = UserIdentity("ed", Role.EDITOR)
ADMIN = UserIdentity("ann", Role.ADMIN)
VIEWER = UserIdentity("vic", Role.VIEWER)
HERE = Process("host", 1, "x")
MINUTE = timedelta(minutes=1)


def success(*events: EmittedEvent) -> Ending:
    return Ending(outcome=Outcome.SUCCESS, state=TaskState.SUCCESS, events=events)


def heartbeat(**changes: Any) -> c.Heartbeat:
    return c.Heartbeat(**({"process": HERE, "lease": MINUTE} | changes))


ALLOWED: list[tuple[Identity, c.Command[Any]]] = [
    (TASK, c.Get(SCOPE, "k")),
    (TASK, c.Set(SCOPE, "k", "1", TASK.writer)),
    (TASK, c.Set(AssetScope(uri="s3://orders"), "k", "1", TASK.writer, on_success=True)),
    (TASK, c.FinishAttempt(TASK.writer, True, ending=success(EmittedEvent(*TASK.assets[0])))),
    (TASK, heartbeat(attempts=(TASK.writer,))),
    (TASK, c.GetResults("sales", "monday", "report")),
    (TASK, c.TakeItem(TASK.writer, "0" * 64)),
    (JOB, c.Advance(ORDERS, "k", "1", JOB.writer)),
    (HANDLE, c.Get(SCOPE, "k")),
    (HANDLE, c.SetMany(SCOPE, (("k", "1"),), ApiWriter("ann"))),
    (ASSET_HANDLE, c.Advance(ORDERS, "k", "1", ApiWriter("whoever"))),
    (ASSET_HANDLE, c.List(AssetScope(uri="s3://orders"))),
    (WATCHER, c.Get(ORDERS, "k")),
    (WATCHER, c.Emit(WATCH, (c.Set(ORDERS, "k", "1", WatcherWriter()),))),
    (CHILD, c.Get(SCOPE, "k")),
    (CHILD, c.Get(ORDERS, "k", CHILD.writer)),
    (CHILD, c.Set(AssetScope(asset_id=7), "k", "1", CHILD.writer)),
    (CHILD, c.Clear(SCOPE, CHILD.writer, all_map_indices=True)),
    (CHILD, c.GetResults("sales", "monday", "report")),
    (CHILD, c.RunEvents("sales", "monday")),
    (CHILD, c.ListAttempts(SCOPE)),
    (CHILD, c.TakePurges(1, MINUTE, "x", c.Part(AssetScope(asset_id=7, name="orders")))),
    (CHILD, c.Now()),
    (TASK_CALLBACK, c.Get(SCOPE, "k")),
    (TASK_CALLBACK, c.Get(ORDERS, "k")),
    (TASK_CALLBACK, c.GetResults("sales", "monday", "report")),
    (RUN_CALLBACK, c.RunEvents("sales", "monday")),
    (WORKER, c.StartAttempt(OTHER)),
    (WORKER, c.StartAttempt(OTHER, HERE, MINUTE)),
    (WORKER, c.ReserveObjects(ORDERS, (), WatcherWriter())),
    (WORKER, c.ReleaseObjects(ORDERS, (), WatcherWriter())),
    (WORKER, c.Set(OTHER, "k", "1", TaskWriter(OTHER, 1))),
    (EDITOR, c.StartAttempt(OTHER)),
    (EDITOR, c.CreateRun(dag_id="sales", run_id="x")),
    (EDITOR, c.Set(OTHER, "k", "1", TaskWriter(OTHER, 1))),
    (VIEWER, c.List(c.AssetFilter())),
    (ADMIN, c.DeleteRun("sales", "monday")),
]
FORBIDDEN: list[tuple[Identity, c.Command[Any]]] = [
    (TASK, c.Get(OTHER, "k")),
    (TASK, c.Get(SECRET, "k")),
    (TASK, c.Get(AssetScope(asset_id=1, name="orders"), "k")),
    (TASK, c.Get(AssetScope(name="secret", uri="s3://orders"), "k")),
    (TASK, c.List(c.TaskFilter("sales"))),
    (TASK, c.List(c.AssetFilter())),
    (TASK, c.Get(ORDERS, "k", TaskWriter(OTHER, 1))),
    (TASK, c.Set(SCOPE, "k", "1", TaskWriter(SCOPE, 1))),
    (TASK, c.Set(SCOPE, "k", "1", TaskWriter(OTHER, 2))),
    (TASK, c.Rewind(SECRET, "k", c.ToVersion(1), TASK.writer)),
    (TASK, c.PutResult(TaskWriter(OTHER, 1), "k", "1")),
    (TASK, c.TakeItem(TaskWriter(OTHER, 1), "0" * 64)),
    (JOB, c.TakeItem(TASK.writer, "0" * 64)),
    (TASK, c.StartAttempt(SCOPE)),
    (TASK, c.FinishAttempt(TaskWriter(SCOPE, 1), True)),
    (TASK, c.FinishAttempt(TASK.writer, True, ending=success(EmittedEvent("secret", "s3://x")))),
    (
        TASK,
        c.FinishAttempt(
            TASK.writer, True, ending=success(EmittedEvent(*TASK.assets[0], aliases=("all",)))
        ),
    ),
    (TASK, heartbeat(attempts=(TaskWriter(OTHER, 1),))),
    (TASK, heartbeat(runs=(("sales", "monday"),))),
    (TASK, heartbeat(attempts=(TASK.writer,), lease=timedelta(days=365))),
    (TASK, heartbeat(attempts=(TASK.writer,), lease=-MINUTE)),
    (TASK, c.GetResults("sales", "tuesday", "report")),
    (JOB, c.Set(SECRET, "k", "1", JOB.writer)),
    (JOB, c.Set(SCOPE, "k", "1", TASK.writer)),
    (JOB, c.Clear(SCOPE, JOB.writer, all_map_indices=True)),
    (JOB, c.Set(SCOPE, JOB.key, '"another"', JOB.writer)),
    (JOB, c.SetMany(SCOPE, (("k", "1"), (JOB.key, '"another"')), JOB.writer)),
    (JOB, c.AddToLoad("l", 0, 0, (c.ScopeEntries(SCOPE, ((JOB.key, "1", None),)),), JOB.writer)),
    (JOB, c.FinishAttempt(TASK.writer, True)),
    (JOB, c.PutResult(TASK.writer, "k", "1")),
    (HANDLE, c.Get(OTHER, "k")),
    (HANDLE, c.Set(ORDERS, "k", "1", ApiWriter("ann"))),
    (HANDLE, c.Set(SCOPE, "k", "1", TASK.writer)),
    (HANDLE, c.Get(SCOPE, "k", TASK.writer)),
    (HANDLE, c.Clear(SCOPE, ApiWriter("ann"), all_map_indices=True)),
    (HANDLE, c.RegisterTask(SCOPE)),
    (HANDLE, c.List(c.TaskFilter())),
    (HANDLE, c.StartAttempt(SCOPE)),
    (ASSET_HANDLE, c.Set(SECRET, "k", "1", ApiWriter("ann"))),
    (ASSET_HANDLE, c.Get(SCOPE, "k")),
    (CHILD, c.Get(OTHER, "k")),
    (CHILD, c.Get(SECRET, "k")),
    (CHILD, c.Get(AssetScope(asset_id=8, name="orders"), "k")),
    (CHILD, c.Get(ORDERS, "k", TaskWriter(OTHER, 1))),
    (CHILD, c.Set(SECRET, "k", "1", CHILD.writer)),
    (CHILD, c.GetResults("sales", "tuesday", "report")),
    (CHILD, c.ListAttempts(OTHER)),
    (CHILD, c.FinishAttempt(CHILD.writer, True)),
    (TASK_CALLBACK, c.Set(SCOPE, "k", "1", CHILD.writer)),
    (TASK_CALLBACK, c.Get(SECRET, "k")),
    (TASK_CALLBACK, c.Get(OTHER, "k")),
    (RUN_CALLBACK, c.Get(SCOPE, "k")),
    (RUN_CALLBACK, c.RunEvents("sales", "tuesday")),
    (WATCHER, c.Get(SECRET, "k")),
    (WATCHER, c.Get(ORDERS, "k", TaskWriter(OTHER, 1))),
    (WATCHER, c.Set(ORDERS, "k", "1", WatcherWriter())),
    (WATCHER, c.Emit(WATCH, (c.Set(SECRET, "k", "1", WatcherWriter()),))),
    (WATCHER, c.Emit(WATCH, (c.Set(ORDERS, "k", "1", TaskWriter(OTHER, 1), on_success=True),))),
    (WATCHER, c.Emit(Watch(WATCH.asset, "poll", 4))),
    (WORKER, c.Set(ORDERS, "k", "1", ApiWriter("ceo"))),
    (WORKER, c.Set(ORDERS, "k", "1", WatcherWriter())),
    (WORKER, c.Set(ORDERS, "k", "1", TaskWriter(OTHER))),
    (WORKER, c.Emit(WATCH, (c.Set(ORDERS, "k", "1", TaskWriter(OTHER)),))),
    (WORKER, heartbeat(runs=(("sales", "monday"),))),
    (WORKER, c.DeleteRun("sales", "monday")),
    (CHILD, c.TakePurges(1, MINUTE, "x", c.Part(AssetScope(asset_id=7, name="other")))),
    (EDITOR, heartbeat(runs=(("sales", "monday"),))),
    (EDITOR, c.DeleteRun("sales", "monday")),
    (EDITOR, c.DeleteAsset(ORDERS)),
    (EDITOR, c.StartAttempt(OTHER, HERE)),
    (EDITOR, c.StartAttempt(OTHER, lease=MINUTE)),
    (ADMIN, c.StartAttempt(OTHER, HERE, MINUTE)),
    (EDITOR, c.CreateRun(dag_id="sales", run_id="x", schedule=True)),
    (EDITOR, c.SaveFile("f.py", ())),
    (VIEWER, c.Set(ORDERS, "k", "1", ApiWriter("vic"))),
    (VIEWER, c.StartAttempt(SCOPE)),
]


def name(case: Any) -> str:
    return str(case) if isinstance(case, Identity) else type(case).__name__


@pytest.mark.parametrize(("identity", "command"), ALLOWED, ids=name)
def test_an_identity_may_execute_its_commands(identity: Identity, command: c.Command[Any]) -> None:
    authorized(identity, command)


@pytest.mark.parametrize(("identity", "command"), FORBIDDEN, ids=name)
def test_an_identity_may_not_execute_other_commands(
    identity: Identity, command: c.Command[Any]
) -> None:
    with pytest.raises(Forbidden, match="may not do this"):
        authorized(identity, command)


@pytest.mark.parametrize(
    ("identity", "given", "written"),
    [
        (TASK, ApiWriter("whoever"), TASK.writer),
        (JOB, ApiWriter("whoever"), JOB.writer),
        (ASSET_HANDLE, ApiWriter("ceo"), ApiWriter("ann")),
        (EDITOR, ApiWriter("ceo"), ApiWriter("ed")),
        (EDITOR, WatcherWriter(), ApiWriter("ed")),
        (EDITOR, TaskWriter(OTHER), ApiWriter("ed")),
        (EDITOR, TaskWriter(OTHER, 3), TaskWriter(OTHER, 3)),
        (ADMIN, TaskWriter(OTHER), TaskWriter(OTHER)),
        (ADMIN, ApiWriter("ceo"), ApiWriter("ann")),
    ],
)
def test_a_write_is_signed_with_the_identity(identity: Identity, given: Any, written: Any) -> None:
    command = signed(identity, c.Set(ORDERS, "k", "1", given))

    assert isinstance(command, c.Set)
    assert command.writer == written


@pytest.mark.parametrize("given", [TaskWriter(OTHER, 3), TaskWriter(OTHER), ApiWriter("ceo")])
@pytest.mark.parametrize(
    "command",
    [
        c.MarkRun("d", "r", state=RunState.FAILED, writer=ApiWriter("ceo")),
        c.MarkTask(scope=SCOPE, state=TaskState.FAILED, writer=ApiWriter("ceo")),
        c.ClearTasks("d", "r", tasks=(("t", None),), writer=ApiWriter("ceo")),
    ],
    ids=name,
)
def test_what_an_editor_does_to_runs_and_tasks_is_signed_with_their_name(
    given: Any, command: c.Command[Any]
) -> None:
    forged = msgspec.structs.replace(command, writer=given)

    assert authorized(EDITOR, forged).writer == ApiWriter(EDITOR.user)


def test_the_writes_of_a_watcher_are_signed_as_a_watchers() -> None:
    command = signed(WATCHER, c.Emit(WATCH, (c.Delete(ORDERS, "k", ApiWriter("ceo")),)))

    assert isinstance(command, c.Emit)
    assert [write.writer for write in command.writes] == [WatcherWriter()]


@pytest.mark.parametrize(
    ("identity", "guard"),
    [
        (TASK, LiveAttempt(TASK.writer)),
        (JOB, CurrentIntent(SCOPE, "job.intent", INTENT)),
        (WATCHER, LiveWatch(WATCH)),
    ],
)
def test_reads_are_guarded_by_the_tokens_subject(identity: Identity, guard: Any) -> None:
    command = authorized(identity, c.Get(ORDERS, "k"))

    assert isinstance(command, Guarded)
    assert command.guard == guard


def test_a_job_writes_while_its_intent_is_current() -> None:
    command = authorized(JOB, c.Set(SCOPE, "k", "1", JOB.writer))

    assert isinstance(command, Guarded)
    assert command.guard == CurrentIntent(SCOPE, "job.intent", INTENT)


def test_a_live_task_issues_a_token_to_its_job() -> None:
    bearer, command = issuing(TASK, JOB)

    assert bearer == JOB
    assert isinstance(command, Guarded)
    assert command.guard == LiveAttempt(TASK.writer)
    assert isinstance(command.inner, Guarded)
    assert command.inner.guard == CurrentIntent(SCOPE, "job.intent", INTENT)


@pytest.mark.parametrize("wanted", [TASK, JOB])
def test_an_editor_issues_tokens_to_attempts_and_jobs(wanted: TaskIdentity | JobIdentity) -> None:
    bearer, command = issuing(EDITOR, wanted)

    assert bearer == wanted
    assert isinstance(command, Guarded)


def test_an_editor_issues_a_handle_in_their_own_name() -> None:
    bearer, _ = issuing(EDITOR, HandleIdentity(SCOPE, "ceo"))

    assert bearer == HandleIdentity(SCOPE, "ed")


@pytest.mark.parametrize("identity", [TASK, JOB])
def test_a_handle_of_a_task_or_job_gets_its_identity(
    identity: TaskIdentity | JobIdentity,
) -> None:
    bearer, command = issuing(identity, HandleIdentity(ORDERS))

    assert bearer == identity
    assert isinstance(command, Guarded)


@pytest.mark.parametrize(
    ("identity", "wanted"),
    [
        (TASK, HandleIdentity(SECRET)),
        (msgspec.structs.replace(TASK, handle=True), JOB),
        (TASK, TASK),
        (JOB, TASK),
        (HANDLE, HANDLE),
        (VIEWER, HANDLE),
        (VIEWER, TASK),
        (WORKER, HANDLE),
    ],
)
def test_an_identity_without_permission_issues_no_token(
    identity: Identity, wanted: TaskIdentity | HandleIdentity
) -> None:
    with pytest.raises(Forbidden, match="may not"):
        issuing(identity, wanted)


@pytest.mark.parametrize(
    ("succeeded", "outcome", "state"),
    [
        (True, Outcome.SUCCESS, TaskState.RUNNING),
        (True, Outcome.FAILED, TaskState.FAILED),
        (False, Outcome.SUCCESS, TaskState.SUCCESS),
        (False, Outcome.FAILED, TaskState.SCHEDULED),
        (False, Outcome.SKIPPED, TaskState.SUCCESS),
    ],
)
def test_a_contradictory_ending_is_refused(
    succeeded: bool, outcome: Outcome, state: TaskState
) -> None:
    with pytest.raises(InvalidInput, match="cannot leave the task"):
        c.FinishAttempt(TASK.writer, succeeded, ending=Ending(outcome=outcome, state=state))


def test_an_ending_without_attempt_is_refused() -> None:
    with pytest.raises(InvalidInput, match="number of the attempt"):
        c.FinishAttempt(TaskWriter(SCOPE), True)
