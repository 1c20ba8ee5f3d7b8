"""The requests. Each is a value, typed by its answer; everything that answers one is a Store.

`reader` and `writer` say who asks. A task's attempt inside them is what fencing goes by, and
whose staged writes are seen.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Final, Generic, Literal, TypeAlias, TypeVar

import msgspec
from msgspec.structs import force_setattr

from holdfast.errors import InvalidInput
from holdfast.model.entry import (
    AssetInfo,
    BackendCleanup,
    Entry,
    Expired,
    Found,
    Page,
    TaskWriter,
    Version,
    Writer,
)
from holdfast.model.run import Ending, Outcome, Process, TaskState
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.model.value import HELD_TEXT, check_json, check_key
from holdfast.portable import tables as report
from holdfast.portable.identifier import check_id

A = TypeVar("A")

MOST_WRITES: Final = 20_000
"""Entries that are written together. Other writers wait meanwhile."""


def check_count(what: str, count: int, most: int, hint: str = "send them in parts") -> None:
    """Raise InvalidInput where a list in a command has more than `most` items."""
    if count > most:
        raise InvalidInput(f"{count:,} {what} in one command", hint=f"{most:,} at most; {hint}")


class Command(msgspec.Struct, Generic[A], frozen=True, tag=True, tag_field="command"):
    """A request whose answer is of type `A`."""

    @property
    def repeatable(self) -> bool:
        """Safe to send again when the answer was lost: the outcome is the same."""
        return True

    @property
    def lengthy(self) -> bool:
        """It may take longer than a store is usually waited for, the more so the more it does."""
        return False


class KeyCommand(Command[A], Generic[A], frozen=True):
    """A request about one key of one scope."""

    scope: StoreScope
    key: str

    def __post_init__(self) -> None:
        force_setattr(self, "key", check_key(self.key, self.scope))


class Get(KeyCommand[str | None], frozen=True):
    """The value's JSON text, or None where there is no live entry."""

    reader: TaskWriter | None = None


class GetEntry(KeyCommand[Entry[str] | None], frozen=True):
    """The whole entry, or None."""

    reader: TaskWriter | None = None


class TaskFilter(msgspec.Struct, frozen=True, tag="tasks"):
    """Task instances that match all that is given."""

    dag_id: str | None = None
    run_id: str | None = None
    task_id: str | None = None
    map_index: int | None = None


class AssetFilter(msgspec.Struct, frozen=True, tag="assets"):
    """Every asset."""


Where: TypeAlias = TaskScope | AssetScope | TaskFilter | AssetFilter


class List(Command[Page], frozen=True):
    """Live entries of one scope, or of all that a filter matches. An unknown scope is an error."""

    where: Where
    prefix: str = ""
    updated_since: datetime | None = None
    expiring_before: datetime | None = None
    limit: int | None = None
    offset: int = 0
    reader: TaskWriter | None = None
    after: tuple[StoreScope, str] | None = None
    """Go on behind the entry of that scope and key, whether it is still there or not; in the list
    of one scope the key alone counts. The total is then that of the page."""
    max_size: int | None = None
    """Characters of values: the page ends with the entry that exceeds them."""

    def __post_init__(self) -> None:
        if self.after is None:
            return
        place(*self.after)
        if isinstance(self.after[0], AssetScope) is not isinstance(
            self.where, AssetScope | AssetFilter
        ):
            raise InvalidInput(f"{self.after[0]} is not among what is listed")


def page_of(found: Sequence[Found], command: List) -> Page:
    """The part of all that a command selects, in order, that it asks for."""
    if command.after is not None:
        whole = not isinstance(command.where, TaskScope | AssetScope)
        behind = place(*command.after) if whole else command.after[1:]
        found = [
            one
            for one in found
            if (place(one.scope, one.entry.key) if whole else (one.entry.key,)) > behind
        ]
    stop = None if command.limit is None else command.offset + command.limit
    page = tuple(found[command.offset : stop])
    return shortened(Page(page, len(found) if command.after is None else len(page)), command)


def shortened(page: Page, command: List) -> Page:
    """End a page where the command's `max_size` does."""
    count = count_within((len(one.entry.value) for one in page.found), command.max_size)
    if count == len(page.found):
        return page
    return Page(page.found[:count], page.total if command.after is None else count, more=True)


def count_within(sizes: Iterable[int], max_size: int | None) -> int:
    """Count items up to the one with which their sizes exceed `max_size`, or all of them."""
    sums = list(accumulate(sizes))
    return len(sums) if max_size is None else min(len(sums), bisect_right(sums, max_size) + 1)


def place(scope: StoreScope, key: str) -> tuple[str | int, ...]:
    """Where an entry is in the order of a list. InvalidInput for an asset without its name."""
    if isinstance(scope, TaskScope):
        return scope.dag_id, scope.run_id, scope.task_id, scope.map_index, key
    if scope.name is None:
        raise InvalidInput(
            f"a list cannot go on behind {scope}", hint="assets are in order of names; give it"
        )
    return scope.name, key


class Set(KeyCommand[int], frozen=True):
    """Write or overwrite; answers with the new version. `on_success` stages it (assets only)."""

    value: str
    writer: Writer
    expires_at: datetime | None = None
    if_version: int | None = None
    on_success: bool = False
    reservation: str = ""
    """Under which the object was reserved that the value refers to."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_staging(self)
        if not self.on_success:
            check_not_held(self.scope, self.key, self.value)

    @property
    def repeatable(self) -> bool:
        return self.if_version is None


class SetMany(Command[int], frozen=True):
    """All of `values` (key, JSON text) or none, as one version; `MOST_WRITES` at most."""

    scope: StoreScope
    values: tuple[tuple[str, str], ...]
    writer: Writer
    expires_at: datetime | None = None
    reservation: str = ""

    def __post_init__(self) -> None:
        check_count(f"entries of {self.scope}", len(self.values), MOST_WRITES, _IN_PARTS)
        values = tuple((check_key(key, self.scope), text) for key, text in self.values)
        force_setattr(self, "values", values)
        for key, text in values:
            check_not_held(self.scope, key, text)


_IN_PARTS: Final = (
    'write them in parts, or all at once as a bulk load: `df.write.format("holdfast")`'
)


def check_not_held(scope: StoreScope, key: str, text: str) -> None:
    """Raise InvalidInput where the text stands for a staged value, which is to be staged."""
    if text == HELD_TEXT:
        raise InvalidInput(
            f"`{key}` of {scope} is the mark of a staged value that its worker holds",
            hint="write the value; a dict that looks like the mark is encoded by the accessors",
        )


def check_staging(command: Set | Advance) -> None:
    """Only an attempt can stage, and only for assets."""
    if not command.on_success:
        return
    if isinstance(command.scope, TaskScope):
        raise InvalidInput(
            f"on_success=True for {command.scope}: only writes to assets can wait for success",
            hint="what a task stores, its next attempt needs at once; leave it out",
        )
    if not isinstance(command.writer, TaskWriter) or command.writer.attempt is None:
        raise InvalidInput(
            f"on_success=True for {command.scope}: there is no attempt whose success to wait for",
            hint="run inside a task, or `with connection.task_store(…).attempt() as attempt:`",
        )


class Advance(KeyCommand[str], frozen=True):
    """The larger of what stands and `value`, both numbers or both strings; answers with it."""

    scope: AssetScope
    value: str
    writer: Writer
    on_success: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        check_staging(self)


class Delete(KeyCommand[None], frozen=True):
    """Remove one entry; nothing happens where there is none."""

    writer: Writer


class Clear(Command[None], frozen=True):
    """Remove every entry of the scope, or of all map indices of its task in its run."""

    scope: StoreScope
    writer: Writer
    all_map_indices: bool = False


class History(KeyCommand[tuple[Version[str], ...]], frozen=True):
    """The last versions of an asset's entry, newest first, deletions included."""

    scope: AssetScope
    before: int | None = None
    """Only those before that version."""
    max_size: int | None = None
    """Characters of values: the answer ends with the version that exceeds them."""


def steps_of(history: Sequence[Version[str]], command: History) -> tuple[Version[str], ...]:
    """The part of all versions, newest first, that a command asks for."""
    steps = [step for step in history if command.before is None or step.version < command.before]
    return tuple(steps[: count_within((len(step.value or "") for step in steps), command.max_size)])


class ToVersion(msgspec.Struct, frozen=True, tag="version"):
    """As that version left it."""

    version: int


class BeforeRun(msgspec.Struct, frozen=True, tag="run"):
    """As it was before that run first wrote it."""

    run_id: str


class AtTime(msgspec.Struct, frozen=True, tag="time"):
    """As it was at that time."""

    at: datetime


Target: TypeAlias = ToVersion | BeforeRun | AtTime


class Rewind(KeyCommand[Version[str] | None], frozen=True):
    """Put an old value back, as a new version; answers with the step that was put back.

    None, or a step without value, means that the entry was absent then, and is again.
    """

    scope: AssetScope
    to: Target
    writer: Writer
    dry_run: bool = False

    @property
    def repeatable(self) -> bool:
        return self.dry_run


class RegisterTask(Command[None], frozen=True):
    """Make an external run and its task instance known; nothing happens where they are."""

    scope: TaskScope


class ListTasks(Command[tuple[TaskScope, ...]], frozen=True):
    """The task instances of a run."""

    dag_id: str
    run_id: str


class DeleteRun(Command[None], frozen=True):
    """Forget a run with all its task instances and their entries."""

    dag_id: str
    run_id: str


class DeclareAsset(Command[AssetInfo], frozen=True):
    """Declare an asset by hand: it is known, and never deactivated.

    A name or URI alone stands for the asset that has it, and for a new one's other part too.
    """

    name: str | None = None
    uri: str | None = None

    def __post_init__(self) -> None:
        AssetScope(name=self.name, uri=self.uri)

    @property
    def declared(self) -> tuple[str, str]:
        """Name and URI of the asset, if it is new."""
        return self.name or self.uri or "", self.uri or self.name or ""


class DeclareDagAssets(Command[None], frozen=True):
    """What a DAG declares, after its file was parsed: exactly these assets (name, URI).

    An asset that no DAG declares any more is deactivated; one that comes back is active again.
    """

    dag_id: str
    assets: tuple[tuple[str, str], ...]

    def __post_init__(self) -> None:
        check_id("dag_id", self.dag_id)
        for name, uri in self.assets:
            AssetScope(name=name, uri=uri)


class ListAssets(Command[tuple[AssetInfo, ...]], frozen=True):
    """Assets, ordered by name."""

    limit: int | None = None
    offset: int = 0


class GetAsset(Command[AssetInfo], frozen=True):
    """One asset; UnknownAsset where there is none."""

    scope: AssetScope


class DeleteAsset(Command[None], frozen=True):
    """Forget an asset with its entries and their history."""

    scope: AssetScope


class StartAttempt(Command[int], frozen=True):
    """Begin the next attempt of a task instance and fence off all earlier ones.

    Its task instance is running from now on, and the results of the attempt before are gone.
    """

    scope: TaskScope
    worker: Process | None = None
    lease: timedelta | None = None
    """How long the attempt counts as supervised without a heartbeat; None: for ever."""
    after: int | None = None
    """The newest attempt that the asker knows of: StaleAttempt where there is a newer one."""


class FinishAttempt(Command[None], frozen=True):
    """End the attempt. On success its staged writes take effect, all or none, with the success."""

    writer: TaskWriter
    succeeded: bool
    clear: bool = False
    """With success: clear the task store in the same transaction."""
    ending: Ending | None = None
    """What a runner knows beyond that; without it, the task instance has succeeded or failed."""

    def __post_init__(self) -> None:
        if self.writer.attempt is None:
            raise InvalidInput(f"{self.writer.scope}: it is not said which attempt has ended")
        if self.ending is not None:
            _check_ending(self.writer.scope, self.ending, self.succeeded)

    @property
    def repeatable(self) -> bool:
        return False


_STATES: Final = {
    Outcome.SUCCESS: {TaskState.SUCCESS},
    Outcome.FAILED: {TaskState.FAILED, TaskState.UP_FOR_RETRY},
    Outcome.SKIPPED: {TaskState.SKIPPED},
    Outcome.INTERRUPTED: {TaskState.SCHEDULED, TaskState.FAILED},
    Outcome.STOPPED: set(),
}
"""What may become of a task instance when an attempt has ended so."""


def _check_ending(scope: TaskScope, ending: Ending, succeeded: bool) -> None:
    outcome, state = ending.outcome, ending.state
    if succeeded != (outcome is Outcome.SUCCESS) or state not in _STATES[outcome]:
        raise InvalidInput(
            f"{scope}: an attempt that ended with {outcome} leaves no task that is {state}"
        )
    if ending.result is not None:
        check_json(f"the result of {scope}", ending.result)
    check_count(f"events of {scope}", len(ending.events), MOST_WRITES)
    if ending.events and not succeeded:
        raise InvalidInput(f"{scope}: only an attempt that succeeded has events")


class Now(Command[datetime], frozen=True):
    """The store's own clock."""


class Test(msgspec.Struct, frozen=True):
    """What a column must be, for its row to be read. Times are microseconds since 1970 in UTC."""

    column: str
    operator: Literal["=", "<", "<=", ">", ">=", "in", "starts", "null", "not null"]
    values: tuple[int | str, ...] = ()


class Slice(msgspec.Struct, frozen=True):
    """Rows of a table, column by column, and the identity of the last of them if there may be
    more."""

    columns: tuple[tuple[int | float | str | None, ...], ...]
    last: tuple[int | str, ...] | None


class Scan(Command[Slice], frozen=True, kw_only=True):
    """Rows of a table of `holdfast.portable.tables`, in order of their identity, from after one and up to
    another; empty: from the first, to the last. What has expired is not among them."""

    table: str
    columns: tuple[str, ...]
    tests: tuple[Test, ...] = ()
    after: tuple[int | str, ...] = ()
    until: tuple[int | str, ...] = ()
    limit: int
    max_size: int | None = None
    """Characters of values, of confs or of errors: the slice ends with the row that exceeds
    them."""

    def __post_init__(self) -> None:
        report.check_columns(self.table, self.columns)
        check_count(
            f"tests of rows of `{self.table}`", len(self.tests), report.MOST_TESTS, "test less"
        )
        for test in self.tests:
            report.check_test(self.table, test.column, test.operator, test.values)
        for bound in filter(None, (self.after, self.until)):
            report.check_identity(self.table, bound)
        if not 1 <= self.limit <= report.LARGEST_SLICE:
            raise InvalidInput(
                f"a slice of {self.limit} rows of the table `{self.table}`",
                hint=f"from 1 to {report.LARGEST_SLICE:,}",
            )


class PlanScan(Command[tuple[tuple[int | str, ...], ...]], frozen=True):
    """The identities between ranges of a table that have about equally many rows: at most `most`
    ranges, and no more than give each about `rows`."""

    table: str
    most: int
    rows: int

    def __post_init__(self) -> None:
        report.check_table(self.table)
        if not 1 <= self.most <= report.MOST_RANGES or not 1 <= self.rows < 2**31:
            raise InvalidInput(
                f"{self.most} ranges of {self.rows} rows of `{self.table}`",
                hint=f"from 1 to {report.MOST_RANGES:,} ranges, of 1 row or more",
            )


class CountExpired(Command[int], frozen=True):
    """How many task entries had expired by the cut-off."""

    cutoff: datetime


class ListExpired(Command[tuple[Expired, ...]], frozen=True):
    """Up to `limit` of them, in order of expiry, from after the given one on."""

    cutoff: datetime
    limit: int
    after: Expired | None = None


class DeleteExpired(Command[int], frozen=True):
    """Delete up to `limit` of them (0: all) in one transaction; answers how many went."""

    cutoff: datetime
    limit: int = 0
    skip_held: bool = False
    """Pass over rows that a writer holds, instead of waiting for it."""


class TakeExpired(Command[tuple[Expired, ...]], frozen=True):
    """Delete up to `limit` of them in one transaction; answers which went."""

    cutoff: datetime
    limit: int


class CleanUpBackend(Command[BackendCleanup], frozen=True):
    """Let a custom backend, whose rows the commands above cannot see, run its own cleanup; or only
    say whether it has one."""

    dry_run: bool = False


class ListOrphans(Command[tuple[AssetInfo, ...]], frozen=True):
    """Assets deactivated by the cut-off that still have entries or history."""

    cutoff: datetime


class DeleteOrphans(Command[int], frozen=True):
    """Delete the entries and history of assets deactivated by the cut-off; answers how many
    assets had any. They stay known, so that versions go on growing if one comes back."""

    cutoff: datetime


class ForgetRequests(Command[int], frozen=True):
    """Forget clients that have sent nothing since the cut-off; answers how many."""

    cutoff: datetime
