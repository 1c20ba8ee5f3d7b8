"""Why a store says no: the same words whichever store says it."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from holdfast.entry import TaskWriter
from holdfast.errors import (
    AssetInactive,
    InvalidInput,
    StaleAttempt,
    UnknownAsset,
    UnknownTaskInstance,
    VersionConflict,
)
from holdfast.scope import AssetScope, StoreScope, TaskScope


def unknown_task(scope: TaskScope) -> UnknownTaskInstance:
    return UnknownTaskInstance(
        f"{scope} is not known",
        hint="check dag, run, task and map index; a run is known once it has started or a script "
        "has written to it",
    )


def unknown_asset(scope: AssetScope, names: Sequence[str]) -> UnknownAsset:
    sought = scope.name or scope.uri or ""
    shown = get_close_matches(sought, names, n=3, cutoff=0.6) or names[:5]
    more = ", …" if len(shown) < len(names) else ""
    known = f"assets that are declared: {', '.join(shown)}{more}. " if names else ""
    return UnknownAsset(
        f"{scope} is not known",
        hint=f"{known}Check the name, or declare it as inlet or outlet of a task, or by hand",
    )


def inactive(scope: AssetScope) -> AssetInactive:
    return AssetInactive(
        f"{scope} is inactive: no DAG declares it any more",
        hint="declare it again as inlet or outlet of a task, or by hand",
    )


def stale(writer: TaskWriter, newest: int, live: bool) -> StaleAttempt:
    now = f"attempt {newest} is under way" if live else f"attempt {newest}, the newest, has ended"
    return StaleAttempt(
        f"attempt {writer.attempt} of {writer.scope} may not write: {now}",
        hint="nothing was written; this process is a leftover and should stop",
    )


def conflict(scope: StoreScope, key: str, expected: int, current: int) -> VersionConflict:
    found = f"it has version {current}" if current else "it is absent"
    wanted = f"version {expected}" if expected else "no entry"
    return VersionConflict(
        f"`{key}` of {scope}: expected {wanted}, but {found}",
        hint="nothing was written; read it again and decide anew",
    )


def taken(name: str, uri: str, other_name: str, other_uri: str) -> InvalidInput:
    return InvalidInput(
        f"asset `{name}` with URI `{uri}` clashes with asset `{other_name}` with URI `{other_uri}`",
        hint="names and URIs are unique; use the asset that exists, or change the other part too",
    )
