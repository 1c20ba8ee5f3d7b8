"""The DAGs that a scheduler has files of, kept as the files are, and told to the store."""

from __future__ import annotations

import logging
import time
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import Final, NamedTuple

from holdfast import run_command as r
from holdfast.dagspec import DagSpec
from holdfast.errors import HoldfastError, StoreUnavailable
from holdfast.runner.conductor import Conductor
from holdfast.runner.dagfiles import DagDirectory
from holdfast.runner.orders import FileParsed
from holdfast.schedule import spec_of
from holdfast.stores import refusal

TRY_AGAIN: Final = 30.0
"""Seconds after which a broken file is imported again: what it needs may be there by then."""
SEE: Final = 5.0
"""Seconds from one word to the store about what is here to the next."""

log = logging.getLogger("holdfast.scheduler")


class _Broken(NamedTuple):
    """A file that cannot be used now, and why."""

    found: FileParsed | None
    """What it holds, where that is sound and does not go together with another file."""
    error: str
    since: float


class KnownDags:
    """A DAG whose file is broken or away is not among `dags`: it starts nothing, and its runs that
    are under way start no more tasks until it is back."""

    def __init__(self, conductor: Conductor, directory: Path, stale_after: timedelta) -> None:
        self._directory = DagDirectory(directory)
        self._conductor = conductor
        self._store = conductor.store
        self._stale_after = stale_after
        self.dags: dict[str, DagSpec] = {}
        self._held = self._recall()
        """The DAGs of each file when it was last sound."""
        self._awaited: set[str] = set()
        """Files that are being imported."""
        self._unsaved: list[FileParsed] = []
        self._broken: dict[str, _Broken] = {}
        self._gone: set[str] = set()
        """Files that are to be forgotten, unless one that is being imported has their DAGs."""
        self._complete_at: float | None = None
        self._seen_at = float("-inf")

    @property
    def complete(self) -> bool:
        """Whether every file was imported once; before, a DAG could miss what starts it."""
        return self._complete_at is not None

    def look(self) -> None:
        """Find what has changed in the directory."""
        changed, gone = self._directory.changes()
        for file in changed:
            self._import(file)
        self._try_broken()
        if not self._awaited:
            self._forget_gone()
        for file in gone:
            log.info("%s is gone", file)
            self._broken.pop(file, None)
            self._drop(file)
        self._gone.update(gone)
        if not self._awaited and self._complete_at is None:
            self._complete_at = time.monotonic()
        self._see()

    def save(self) -> None:
        """Take in what came of imports."""
        self._unsaved += self._conductor.parsed()
        while self._unsaved:
            self._save(self._unsaved[0])
            del self._unsaved[0]

    def broken_file(self, dag_id: str) -> str | None:
        """The file of a DAG that is not among `dags` for being broken."""
        return next((file for file in self._broken if dag_id in self._held.get(file, ())), None)

    def why_without(self, dag_id: str) -> str:
        """What is wrong with a DAG that is not among `dags`."""
        if (file := self.broken_file(dag_id)) is not None:
            return f"its file {file} is broken; `holdfast dags errors` shows why"
        return "no DAG file holds it"

    def _recall(self) -> dict[str, set[str]]:
        """What an earlier scheduler has found in this directory."""
        held: dict[str, set[str]] = {}
        for info in self._store.execute(r.ListDags()):
            if info.file and self._directory.holds(file := spec_of(info).file):
                held.setdefault(file, set()).add(info.dag_id)
        self._directory.recall(held)
        return held

    def _import(self, file: str) -> None:
        if file not in self._awaited:
            self._awaited.add(file)
            self._conductor.parse(file)

    def _try_broken(self) -> None:
        for file, broken in self._broken.items():
            if time.monotonic() >= broken.since + TRY_AGAIN:
                self._import(file)

    def _forget_gone(self) -> None:
        """A round after they went, or later: a DAG that has moved is then with its new file."""
        if self._gone:
            self._try_refused()
        for file in sorted(self._gone):
            if not self._directory.has(file):
                self._store.execute(r.ForgetFile(self._directory.name(file)))
                self._held.pop(file, None)
            self._gone.discard(file)

    def _see(self) -> None:
        """Tell the store what is here, and have it call stale what nobody has."""
        now = time.monotonic()
        if self._complete_at is None or now < self._seen_at + SEE:
            return
        here = {file: ids for file, ids in self._held.items() if self._directory.has(file)}
        ids = tuple(sorted(chain(*here.values())))
        lost = self._store.execute(r.SeeDags(ids))
        for file, held in here.items():
            if not held.isdisjoint(lost) and file not in self._broken:
                self._import(file)
        if now >= self._complete_at + self._stale_after.total_seconds():
            for dag_id in self._store.execute(r.RetireDags(self._stale_after)):
                log.warning("DAG %s is stale: no file has held it for some time", dag_id)
        self._seen_at = now

    def _save(self, found: FileParsed) -> None:
        self._awaited.discard(found.file)
        if not (self._directory.has(found.file) and Path(found.file).exists()):
            return  # it has gone meanwhile, which is told as that
        error = found.parsed.error or self._refusal(found)
        if error:
            self._set_aside(found, error)
            return
        dags = found.parsed.dags
        self._broken.pop(found.file, None)
        self._held[found.file] = {dag.dag_id for dag in dags}
        self._drop(found.file)
        self.dags |= {dag.dag_id: dag for dag in dags}
        self._share()
        log.info("%s: %s", found.file, ", ".join(dag.dag_id for dag in dags) or "no DAG")
        self._try_refused()

    def _refusal(self, found: FileParsed) -> str:
        """Why what a sound file holds cannot be saved; empty where it now is."""
        name = self._directory.name(found.file)
        gone = [self._directory.name(one) for one in self._gone if not self._directory.has(one)]
        try:
            for dag in found.parsed.dags:
                holder = self.dags.get(dag.dag_id, dag).file
                if holder != found.file and self._directory.has(holder):
                    raise refusal.dag_elsewhere(dag.dag_id, name, self._directory.name(holder))
            self._store.execute(r.SaveFile(name, found.parsed.dags, tuple(gone), seen=True))
        except StoreUnavailable:
            raise
        except HoldfastError as refused:
            return str(refused)
        return ""

    def _set_aside(self, found: FileParsed, error: str) -> None:
        before = self._broken.get(found.file)
        now = time.monotonic()
        if before is None or before.error != error:
            log.warning("%s cannot be used:\n%s", found.file, error.rstrip())
        elif now < before.since + TRY_AGAIN:
            return
        self._broken[found.file] = _Broken(None if found.parsed.error else found, error, now)
        self._drop(found.file)
        self._store.execute(r.SaveFileError(self._directory.name(found.file), error))

    def _try_refused(self) -> None:
        """Another file has changed, perhaps the one that was in the way."""
        for file, broken in list(self._broken.items()):
            if broken.found is not None and file not in self._awaited:
                self._save(broken.found)

    def _drop(self, file: str) -> None:
        self.dags = {id: dag for id, dag in self.dags.items() if dag.file != file}
        self._share()

    def _share(self) -> None:
        """Runs that are under way go on with what the files say now."""
        for active in self._conductor.runs.values():
            dag = self.dags.get(active.run.dag_id)
            if active.held is not (dag is None):
                active.held = dag is None
                active.look_at = 0.0
                if active.held:
                    why = self.why_without(active.run.dag_id)
                    log.warning("run %s of %s waits: %s", active.run.run_id, active.run.dag_id, why)
            active.dag = dag or active.dag
