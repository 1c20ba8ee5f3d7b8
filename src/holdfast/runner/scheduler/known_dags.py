"""DAGs of a scheduler, kept up to date with their files and reported to the store."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable
from datetime import timedelta
from itertools import chain
from typing import Final, NamedTuple

from holdfast import commands as c
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.model.dag import DagSpec, spec_of
from holdfast.runner.protocol.orders import FileParsed
from holdfast.runner.scheduler.conductor import Conductor
from holdfast.runner.scheduler.dag_files import DagDirectory, printable_path
from holdfast.stores import refusals

FIRST_RETRY_PAUSE: Final = 30.0
"""Seconds after which a broken file is imported again: what it needs may be there by then. They
double each time that it is still broken, up to `LONGEST_RETRY_PAUSE`."""
LONGEST_RETRY_PAUSE: Final = 600.0
START_TIMEOUT: Final = 30.0
"""Seconds for which a starting scheduler waits for files that are slow to import."""
REPORT_INTERVAL: Final = 5.0
"""Interval in seconds between reports to the store about which DAGs are present."""

ERROR_INTERVAL: Final = timedelta(seconds=LONGEST_RETRY_PAUSE + 60)
"""Time within which a scheduler that has a broken file reports its error again."""

SEEN_INTERVAL: Final = 30.0
"""Seconds for which a DAG counts as held by the scheduler that has seen it."""

log = logging.getLogger("holdfast.scheduler")


class _Broken(NamedTuple):
    """A file that cannot be used now, and why."""

    found: FileParsed | None
    """The result of its import, if that is valid but conflicts with another file."""
    error: str
    since: float
    wait: float
    """Seconds until the next try."""


class KnownDags:
    """The DAGs of a scheduler's directory.

    A DAG whose file is broken or missing is not among `dags`: no run of it is started, and its
    active runs start no more tasks until it is back.
    """

    def __init__(
        self, conductor: Conductor, directory: DagDirectory, stale_after: timedelta
    ) -> None:
        self._directory = directory
        self._conductor = conductor
        self._store = conductor.store
        self._stale_after = stale_after
        self.dags: dict[str, DagSpec] = {}
        self._held: dict[str, set[str]] = {}
        """The ids of each file's DAGs when it was last valid and saved."""
        self._elsewhere: dict[str, dict[str, set[str]]] = {}
        """The ids of DAGs that were found in other directories, such as an earlier release, by
        directory and by the name of the file."""
        self._elsewhere_at = float("-inf")
        self._errors_at = time.monotonic()
        self._recall()
        self._latest: dict[str, set[str]] = {}
        """The ids of each file's DAGs when it was last imported, saved or not."""
        self._awaited: set[str] = set()
        """Files that are being imported."""
        self._again: set[str] = set()
        """Files that have changed while they are being imported."""
        self._unsaved: list[FileParsed] = []
        self._broken: dict[str, _Broken] = {}
        self._gone: set[str] = set()
        """Deleted files to be forgotten, unless one that is being imported has their DAGs."""
        self._unanswered: set[str] | None = None
        """Files that were present at the start and have not yet been imported once."""
        self._began_at = time.monotonic()
        self._complete_at: float | None = None
        self._seen_at = float("-inf")

    @property
    def complete(self) -> bool:
        """True once every file was imported, or took too long. Before that, a new DAG could miss an
        event that starts it."""
        return self._complete_at is not None

    def look(self) -> None:
        """Check the directory for changes, import changed files, and report to the store."""
        went_before = frozenset(self._gone)
        changed, gone = self._directory.changes()
        for file in changed:
            self._order_import(file)
        for file in gone:
            log.info("%s was deleted", printable_path(file))
            self._broken.pop(file, None)
            self._latest.pop(file, None)
            self._replace_dags(file, ())
        self._gone.update(gone)
        self._forget_errors()
        self._retry_broken()
        self._count_answers()
        if not self._awaited:
            self._forget_files(went_before)
            self._forget_elsewhere()
        self._report_present()

    def save(self) -> None:
        """Save the results of imports."""
        self._unsaved += self._conductor.parsed()
        while self._unsaved:
            self._take_result(self._unsaved[0])
            del self._unsaved[0]

    def broken_file(self, dag_id: str) -> str | None:
        """Return the file of a DAG that is not among `dags` because the file is broken."""
        return next((file for file in self._broken if dag_id in self._held.get(file, ())), None)

    def why_without(self, dag_id: str) -> str:
        """Return the reason why a DAG is not among `dags`."""
        for file, held in self._held.items():
            if dag_id in held and file in self._broken:
                return f"its file {file} is broken; `holdfast dags errors` shows why"
            if dag_id in held and self._directory.has(file):
                return f"its file {file} is still being imported"
        return "no DAG file defines it"

    def _recall(self) -> None:
        """Recall what other schedulers have found, in this directory or in others."""
        for info in self._store.execute(c.ListDags()):
            if info.file and self._directory.holds(file := spec_of(info).file):
                self._held.setdefault(file, set()).add(info.dag_id)
            elif info.file and info.seen_at is not None:
                files = self._elsewhere.setdefault(file.removesuffix(info.file), {})
                files.setdefault(info.file, set()).add(info.dag_id)
        self._directory.recall(self._held)

    def _order_import(self, file: str) -> None:
        if file in self._awaited:
            self._again.add(file)
            return
        self._awaited.add(file)
        self._conductor.parse(file)

    def _retry_broken(self) -> None:
        for file, broken in self._broken.items():
            if file not in self._awaited and time.monotonic() >= broken.since + broken.wait:
                self._order_import(file)

    def _count_answers(self) -> None:
        if self._unanswered is None:
            self._unanswered = set(self._awaited)
        self._unanswered &= self._awaited
        if self._complete_at is None:
            now = time.monotonic()
            if not self._unanswered or now >= self._began_at + START_TIMEOUT:
                self._complete_at = now
                log.info("ready: %d DAGs", len(self.dags))

    def _forget_files(self, gone: Iterable[str]) -> None:
        """Forget deleted files, at least one round after their deletion.

        By then a DAG that has moved is known by its new file.
        """
        for file in sorted(gone):
            if not self._directory.has(file):
                self._retry_refused()
                ids = tuple(sorted(self._held.get(file, ())))
                self._store.execute(c.ForgetFile(self._directory.name(file), ids))
                self._held.pop(file, None)
            self._gone.discard(file)

    def _forget_errors(self) -> None:
        """Forget errors of missing files that no scheduler has reported for so long that none has
        the file in another directory."""
        names, now = self._directory.names(), time.monotonic()
        if names is None or now < self._errors_at:
            return
        reported_after = self._store.execute(c.Now()) - ERROR_INTERVAL
        for info in self._store.execute(c.ListFiles(broken=True)):
            if info.file not in names and info.saved_at < reported_after:
                self._store.execute(c.ForgetFile(info.file))
        self._errors_at = now + ERROR_INTERVAL.total_seconds()

    def _forget_elsewhere(self) -> None:
        """Forget DAGs that were found in another directory and are not in the same files here, once
        no scheduler sees them there any more.

        Only if this directory has a file of that one, and so is its next release: otherwise the
        scheduler of that one may just be down.
        """
        names, now = self._directory.names(), time.monotonic()
        if names is None or now < self._elsewhere_at + SEEN_INTERVAL:
            return
        self._elsewhere_at = now
        former = [files for files in self._elsewhere.values() if not files.keys().isdisjoint(names)]
        if not former:
            return
        seen_after = self._store.execute(c.Now()) - timedelta(seconds=SEEN_INTERVAL)
        dags = {info.dag_id: info for info in self._store.execute(c.ListDags(specs=False))}
        for name, ids in chain.from_iterable(files.items() for files in former):
            file = names.get(name, "")
            ids -= {one for one in ids if one not in dags or dags[one].file != name}
            if file in self._broken:  # its DAGs stay as they were before
                self._held.setdefault(file, set()).update(ids)
                ids.clear()
            ids -= self._held.get(file, set())
            unseen = {one for one in ids if (dags[one].seen_at or seen_after) <= seen_after}
            if unseen:
                self._store.execute(c.ForgetFile(name, tuple(sorted(unseen)), unless_seen=True))
                self._retry_refused()
        self._elsewhere = {
            directory: files for directory, files in self._elsewhere.items() if any(files.values())
        }

    def _report_present(self) -> None:
        """Report the present DAGs to the store, and have it mark as stale those that nobody has."""
        now = time.monotonic()
        if self._complete_at is None or now < self._seen_at + REPORT_INTERVAL:
            return
        here = {
            file: held & self._latest.get(file, held)
            for file, held in self._held.items()
            if self._directory.has(file)
        }
        ids = tuple(sorted(set(chain(*here.values()))))
        lost = self._store.execute(c.SeeDags(ids))
        for file, held in here.items():
            if not held.isdisjoint(lost) and file not in self._broken:
                self._order_import(file)
        if now >= self._complete_at + self._stale_after.total_seconds():
            for dag_id in self._store.execute(c.RetireDags(self._stale_after)):
                log.warning("DAG %s is stale: no scheduler has seen its file for some time", dag_id)
        self._seen_at = now

    def _take_result(self, found: FileParsed) -> None:
        self._awaited.discard(found.file)
        if found.file in self._again:
            self._again.discard(found.file)
            if self._directory.has(found.file):
                self._order_import(found.file)
            return
        if not self._directory.has(found.file):
            return  # it is gone meanwhile, which is reported separately
        if not os.path.exists(found.file):
            self._directory.forget(found.file)
            return
        self._save_or_set_aside(found)

    def _save_or_set_aside(self, found: FileParsed) -> None:
        """Save and use the DAGs of a file, or set the file aside as broken."""
        dags = found.parsed.dags
        if not found.parsed.error:
            self._latest[found.file] = {dag.dag_id for dag in dags}
        error = found.parsed.error or self._refusal(found)
        if error:
            self._set_aside(found, error)
            return
        self._broken.pop(found.file, None)
        self._held[found.file] = {dag.dag_id for dag in dags}
        self._replace_dags(found.file, dags)
        if uncalled := found.parsed.uncalled:
            log.warning("%s: no DAG: the @dag function %s is never called", found.file, uncalled[0])
        else:
            log.info("%s: %s", found.file, ", ".join(dag.dag_id for dag in dags) or "no DAG")
        self._retry_refused()

    def _refusal(self, found: FileParsed) -> str:
        """Save the DAGs of a valid file; return why that was refused, or an empty string."""
        name, ids = self._directory.name, self._latest[found.file]
        others = [file for file, held in self._held.items() if held & ids and file != found.file]
        left = self._held.get(found.file, set()) - ids
        try:
            for file in others:
                if still := ids & self._held[file] & self._current_ids(file):
                    raise refusals.dag_elsewhere(min(still), name(found.file), name(file))
            save = c.SaveFile(
                name(found.file),
                found.parsed.dags,
                seen=True,
                left=tuple(sorted(left)),
                taken_from=tuple(map(name, others)),
            )
            self._store.execute(save)
        except StoreUnavailable:
            raise
        except HoldfastError as refused:
            return str(refused)
        for file in others:
            self._held[file] -= ids
        return ""

    def _current_ids(self, file: str) -> set[str]:
        """Return the ids of the DAGs of another file, as far as known."""
        return self._latest.get(file, self._held[file]) if self._directory.has(file) else set()

    def _set_aside(self, found: FileParsed, error: str) -> None:
        before = self._broken.get(found.file)
        sound = None if found.parsed.error else found
        now = time.monotonic()
        if before is None or before.error != error:
            log.warning("%s cannot be used:\n%s", printable_path(found.file), error.rstrip())
            wait = FIRST_RETRY_PAUSE
        elif now < before.since + before.wait:
            self._broken[found.file] = before._replace(found=sound)
            return
        else:
            wait = min(2 * before.wait, LONGEST_RETRY_PAUSE)
        self._broken[found.file] = _Broken(sound, error, now, wait)
        self._replace_dags(found.file, ())
        self._store.execute(c.SaveFileError(self._directory.name(found.file), error))

    def _retry_refused(self) -> None:
        """Retry refused files: another file has changed, perhaps the one in conflict."""
        for file, broken in list(self._broken.items()):
            untouched = self._broken.get(file) is broken and file not in self._awaited
            if broken.found is not None and untouched:
                self._save_or_set_aside(broken.found)

    def _replace_dags(self, file: str, dags: tuple[DagSpec, ...]) -> None:
        """Replace the DAGs of a file; active runs continue with the new ones."""
        others = {id: dag for id, dag in self.dags.items() if dag.file != file}
        self.dags = self._conductor.dags = others | {dag.dag_id: dag for dag in dags}
        for active in self._conductor.runs.values():
            dag = self.dags.get(active.run.dag_id)
            if dag is not None and dag != active.dag:
                active.dag = dag
                active.look_at = 0.0
