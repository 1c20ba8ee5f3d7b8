"""Targets of a rewind, and the version that each selects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TypeAlias

import msgspec

from holdfast.errors import HistoryGone, InvalidInput, NotSupported
from holdfast.model.entry import TaskWriter, Version
from holdfast.model.value import is_in_place


class ToVersion(msgspec.Struct, frozen=True, tag="version"):
    """The entry as that version left it."""

    version: int


class BeforeRun(msgspec.Struct, frozen=True, tag="run"):
    """The entry as it was before that run first wrote it."""

    run_id: str


class AtTime(msgspec.Struct, frozen=True, tag="time"):
    """The entry as it was at that time."""

    at: datetime


Target: TypeAlias = ToVersion | BeforeRun | AtTime


def rewind_target(version: int | None, run_id: str | None, at: datetime | None) -> Target:
    """Return the one target that is given. Raise InvalidInput unless exactly one is."""
    targets: list[Target] = []
    if version is not None:
        targets.append(ToVersion(version))
    if run_id is not None:
        targets.append(BeforeRun(run_id))
    if at is not None:
        if at.tzinfo is None:
            raise InvalidInput(f"`at` has no time zone: {at.isoformat()}", hint="add tzinfo=UTC")
        targets.append(AtTime(at.astimezone(UTC)))
    if len(targets) != 1:
        raise InvalidInput("a rewind needs exactly one target", hint="give version, run_id or at")
    return targets[0]


def choose(history: Sequence[Version[str]], target: Target, where: str) -> Version[str] | None:
    """Return the version to restore, from a history with the newest first; None: the entry was
    absent.

    Raise HistoryGone where the history no longer reaches back far enough, and NotSupported for a
    value that was offloaded to a reference which the next value has overwritten.
    """
    step = _chosen(history, target, where)
    if step is not None and step.value is not None and is_in_place(step.value):
        raise NotSupported(
            f"the value of {where} was offloaded, and the next value has overwritten it",
            hint="ObjectStoreBackend keeps old values",
        )
    return step


def _chosen(history: Sequence[Version[str]], target: Target, where: str) -> Version[str] | None:
    if not history:
        raise HistoryGone(f"{where} has no history", hint="check the key; `list` shows what exists")
    match target:
        case ToVersion(version):
            for step in history:
                if step.version == version:
                    return step
            raise HistoryGone(
                f"{where} has no version {version}",
                hint=f"versions kept: {_shown(history)}",
            )
        case AtTime(at):
            before = [step for step in history if step.updated_at <= at]
            sought = f"its value at {at.isoformat()}"
        case BeforeRun(run_id):
            mine = [step.version for step in history if _run_of(step) == run_id]
            if not mine:
                raise HistoryGone(
                    f"run `{run_id}` did not write {where}, according to its history",
                    hint="`history` shows the runs that did",
                )
            before = [step for step in history if step.version < mine[-1]]
            sought = f"its value before run `{run_id}`"
    if before:
        return before[0]
    if history[-1].previous:
        raise HistoryGone(
            f"the history of {where} no longer reaches back to {sought}",
            hint=f"versions kept: {_shown(history)}; asset_history_limit sets how many",
        )
    return None


def _run_of(step: Version[str]) -> str | None:
    return step.writer.scope.run_id if isinstance(step.writer, TaskWriter) else None


def _shown(history: Sequence[Version[str]]) -> str:
    return f"{history[-1].version} to {history[0].version}"
