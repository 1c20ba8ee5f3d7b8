"""Views of a run: a live table on a terminal, lines elsewhere."""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TextIO

import msgspec

from holdfast.model.run import Run, TaskInstance, TaskState
from holdfast.model.scope import TaskScope
from holdfast.portable.identifier import one_line

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

MANY: Final = 6
"""More map indices than this are shown as one row."""
MOST_FAILURES: Final = 10
BAR: Final = 12

# In order of precedence: the first of these that any instance of a mapped task has is shown for
# all.
STYLES: Final = {
    TaskState.RUNNING: "cyan",
    TaskState.FAILED: "bold red",
    TaskState.UP_FOR_RETRY: "yellow",
    TaskState.SCHEDULED: "dim",
    TaskState.UPSTREAM_FAILED: "red",
    TaskState.SUCCESS: "green",
    TaskState.SKIPPED: "magenta",
}


class PlainView:
    """A view with one line for each change of state."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = stream or sys.stderr
        self._run: Run | None = None
        self._seen: dict[TaskScope, tuple[TaskState | None, int]] = {}

    def update(
        self, run: Run, tasks: Sequence[TaskInstance], progress: Mapping[TaskScope, Any]
    ) -> None:
        """Print what has changed since the last update."""
        changed = self._run is None or self._run.state is not run.state
        self._run = run
        if changed and not run.state.ended:
            self._tell(run.started_at, f"run {run.run_id} of {run.dag_id}", run.state)
        for one in tasks:
            now = one.state, one.attempt
            before = self._seen.get(one.scope)
            if now == before or is_to_begin(one):
                continue
            self._seen[one.scope] = now
            # A waiting task is worth a line only if it has run before.
            waits = one.state in (None, TaskState.SCHEDULED) and before is None
            if not waits and one.state is not TaskState.REMOVED:
                self._tell_task(one)
        if changed and run.state.ended:
            length = span(run.started_at, run.ended_at)
            self._tell(run.ended_at, f"run {run.run_id} of {run.dag_id}", run.state, length)

    def say(self, text: str) -> None:
        """Print a message."""
        print(text, file=self._stream, flush=True)

    def close(self) -> None:
        """Flush the stream, after the last update."""
        self._stream.flush()

    def _tell_task(self, one: TaskInstance) -> None:
        running = one.state is TaskState.RUNNING
        attempt = f" attempt {one.attempt}" if one.attempt else ""
        self._tell(
            one.started_at if running else one.ended_at,
            f"{label(one.scope)}{attempt}",
            str(one.state),
            None if running else span(one.started_at, one.ended_at),
            one.error,
        )

    def _tell(
        self,
        at: datetime | None,
        what: str,
        state: str,
        length: timedelta | None = None,
        error: str = "",
    ) -> None:
        after = "" if length is None else f" after {duration_text(length)}"
        why = f": {one_line(error)}" if error else ""
        self.say(
            f"{(at or datetime.now(UTC)).astimezone(UTC):%H:%M:%SZ} {what} {state}{after}{why}"
        )


class Row(NamedTuple):
    """A row of the table: a task, one map index of it, or many of them together."""

    label: str
    state: TaskState
    attempt: int
    started_at: datetime | None
    ended_at: datetime | None
    detail: str

    def cells(self, now: datetime) -> tuple[str, str, str, str, str]:
        ended = None if self.state is TaskState.RUNNING else self.ended_at
        time = span_text(self.started_at, ended or now)
        return self.label, self.state, time, str(self.attempt or ""), self.detail


class LiveView:
    """A table of tasks that is redrawn as they change. It appears with the first update."""

    def __init__(self, console: Console) -> None:
        from rich.live import Live

        self._console = console
        self._shown: tuple[Run, Sequence[TaskInstance], Mapping[TaskScope, Any]] | None = None
        self._live = Live(console=console, get_renderable=self._picture, refresh_per_second=4)

    def update(
        self, run: Run, tasks: Sequence[TaskInstance], progress: Mapping[TaskScope, Any]
    ) -> None:
        """Show these states from now on."""
        self._shown = run, tasks, progress
        if not self._live.is_started:
            self._live.start()

    def say(self, text: str) -> None:
        """Print a message, above the table."""
        self._console.print(text, markup=False, emoji=False, highlight=False)

    def close(self) -> None:
        """Leave the table as it is, with the full errors of failed tasks below it."""
        if self._shown is None or not self._live.is_started:
            return
        self._live.stop()
        failed = [one for one in self._shown[1] if one.state is TaskState.FAILED]
        for one in failed[:MOST_FAILURES]:
            self.say(f"{label(one.scope)} failed: {one_line(one.error)}")
        if len(failed) > MOST_FAILURES:
            self.say(f"… and {len(failed) - MOST_FAILURES:,} more failed")

    def _picture(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        if self._shown is None:
            return Text()
        run, tasks, progress = self._shown
        now = datetime.now(UTC)
        # Lines outside of the table: one above, its header, one below, and the cursor's.
        rows, more = fitting(table_rows(tasks, progress, now), max(self._console.height - 4, 1))
        parts: list[RenderableType] = [self._headline(run, tasks, now), self._table(rows, now)]
        if more:
            states = in_words(Counter(row.state for row in more))
            parts.append(Text(f"… and {len(more):,} more: {states}", "dim", no_wrap=True))
        return Group(*parts)

    def _headline(self, run: Run, tasks: Sequence[TaskInstance], now: datetime) -> RenderableType:
        from rich.text import Text

        live = [one for one in tasks if one.state is not TaskState.REMOVED]
        done = sum(1 for one in live if one.state is not None and one.state.ended)
        length = span(run.started_at, run.ended_at or now) or timedelta()
        facts = f"{run.state}, {done:,} of {len(live):,} done, {duration_text(length)}"
        line = Text(no_wrap=True, overflow="ellipsis")
        return line.append(run.dag_id, "bold").append(f" {facts}  ").append(run.run_id, "dim")

    def _table(self, rows: Sequence[Row], now: datetime) -> Table:
        from rich.table import Table
        from rich.text import Text

        width = self._console.width
        widest = max(width // 3 if width >= 60 else width // 2, 8)
        table = Table(
            box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim", expand=width >= 60
        )
        table.add_column("task", no_wrap=True, overflow="ellipsis", max_width=widest)
        table.add_column("state", no_wrap=True, overflow="ellipsis")
        if width >= 40:
            table.add_column("time", no_wrap=True, justify="right")
        if width >= 50:
            table.add_column("try", no_wrap=True, justify="right")
        if width >= 60:
            # With a ratio it gets the rest, and a long error does not squeeze the other columns.
            table.add_column("", no_wrap=True, overflow="ellipsis", ratio=1)
        for row in rows:
            cells = [Text(cell) for cell in row.cells(now)[: len(table.columns)]]
            cells[1].stylize(STYLES[row.state])
            table.add_row(*cells)
        return table


def table_rows(
    tasks: Iterable[TaskInstance], progress: Mapping[TaskScope, Any], now: datetime
) -> list[Row]:
    """Return the rows of the table, in the order in which tasks started, then those that wait."""
    groups: defaultdict[str, list[TaskInstance]] = defaultdict(list)
    for one in tasks:
        if one.state is not TaskState.REMOVED:
            groups[one.scope.task_id].append(one)
    never = datetime.max.replace(tzinfo=UTC)
    ordered = sorted(groups.values(), key=lambda group: _earliest(group) or never)
    rows = []
    for group in ordered:
        if len(group) > MANY:
            rows.append(_row_of_many(group))
        else:
            rows += [_row(one, progress.get(one.scope), now) for one in group]
    return rows


def fitting(rows: list[Row], height: int) -> tuple[list[Row], list[Row]]:
    """Return the rows that fit, and the others. Tasks that run, have failed or wait for a retry
    come first, then those that ended last."""
    if len(rows) <= height:
        return rows, []
    urgent = {TaskState.RUNNING: 0, TaskState.FAILED: 1, TaskState.UP_FOR_RETRY: 2}

    def importance(index: int) -> tuple[int, float]:
        row = rows[index]
        return urgent.get(row.state, 3), -row.ended_at.timestamp() if row.ended_at else 0.0

    kept = set(sorted(range(len(rows)), key=importance)[:height])
    return (
        [row for index, row in enumerate(rows) if index in kept],
        [row for index, row in enumerate(rows) if index not in kept],
    )


def _row(one: TaskInstance, progress: Any, now: datetime) -> Row:
    state = one.state or TaskState.SCHEDULED
    detail = f"waits for {one.waits_for}" if one.waits_for else one_line(one.error)
    if state is TaskState.RUNNING:
        detail = "" if progress is None else progress_text(progress)
    elif state is TaskState.UP_FOR_RETRY and one.ready_at is not None and one.ready_at > now:
        detail = f"retry in {duration_text(one.ready_at - now)}: {detail}"
    return Row(label(one.scope), state, one.attempt, one.started_at, one.ended_at, detail)


def _row_of_many(group: Sequence[TaskInstance]) -> Row:
    states = Counter(one.state or TaskState.SCHEDULED for one in group)
    done = sum(count for state, count in states.items() if state.ended)
    return Row(
        f"{group[0].scope.task_id} ({len(group):,})",
        next(state for state in STYLES if state in states),
        max(one.attempt for one in group),
        _earliest(group),
        max((one.ended_at for one in group if one.ended_at is not None), default=None),
        f"{bar(done / len(group))} {in_words(states)}",
    )


def _earliest(group: Iterable[TaskInstance]) -> datetime | None:
    return min((one.started_at for one in group if one.started_at is not None), default=None)


def progress_text(progress: Any) -> str:
    """Return the progress that a task reports as text. Pairs of `x` and `done_x` are drawn as a
    bar; of the rest, only the rows that Spark has read and written are then shown."""
    if isinstance(progress, str):
        return one_line(progress)
    if not isinstance(progress, dict):
        return _json(progress)
    parts = {
        name: (progress[f"done_{name}"], total)
        for name, total in progress.items()
        if _is_number(total) and total > 0 and _is_number(progress.get(f"done_{name}"))
    }
    if not parts:
        shown = (f"{name} {_json(value)}" for name, value in progress.items())
        return one_line(", ".join(shown))
    texts = [f"{done:,}/{total:,} {name}" for name, (done, total) in parts.items()]
    texts += [
        f"{progress[name]:,} {name.replace('_', ' ')}"
        for name in ("rows_read", "rows_written")
        if _is_number(progress.get(name))
    ]
    done, total = parts.get("tasks") or next(iter(parts.values()))
    return f"{bar(done / total)} {one_line(', '.join(texts))}"


def bar(share: float) -> str:
    filled = round(min(max(share, 0.0), 1.0) * BAR)
    return "━" * filled + "─" * (BAR - filled)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _json(value: Any) -> str:
    return value if isinstance(value, str) else one_line(msgspec.json.encode(value).decode())


def in_words(states: Mapping[TaskState, int]) -> str:
    return ", ".join(f"{states[state]:,} {state}" for state in STYLES if state in states)


def is_to_begin(one: TaskInstance) -> bool:
    """Return whether its next attempt is about to start; until then, its times are of the last."""
    begun = one.started_at is not None and one.ended_at is None
    return one.state is TaskState.RUNNING and not begun


def label(scope: TaskScope) -> str:
    return f"{scope.task_id}[{scope.map_index}]" if scope.map_index >= 0 else scope.task_id


def span(start: datetime | None, end: datetime | None) -> timedelta | None:
    return None if start is None or end is None else max(end - start, timedelta())


def span_text(start: datetime | None, end: datetime | None) -> str:
    length = span(start, end)
    return "" if length is None else duration_text(length)


def duration_text(length: timedelta) -> str:
    """Return a duration as people write it: 0.4s, 12s, 3m 05s, 1h 02m, 2d 03h."""
    seconds = length.total_seconds()
    if seconds < 10:
        return f"{seconds:.1f}s"
    minutes, seconds = divmod(int(seconds), 60)
    if not minutes:
        return f"{seconds}s"
    hours, minutes = divmod(minutes, 60)
    if not hours:
        return f"{minutes}m {seconds:02}s"
    days, hours = divmod(hours, 24)
    return f"{days}d {hours:02}h" if days else f"{hours}h {minutes:02}m"
