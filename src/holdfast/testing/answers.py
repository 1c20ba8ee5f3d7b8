"""Comparison of the answers of two stores, except for values that a store chooses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from holdfast import commands as c
from holdfast.errors import AssetInactive, HoldfastError, InvalidType, VersionConflict
from holdfast.model.entry import AssetInfo, Entry, Expired, Found, Page, Version
from holdfast.model.scope import AssetScope, StoreScope


def comparable(command: c.Command[Any], answer: Any) -> Any:
    """Return the answer without ids and version numbers; of an error, only its class."""
    replace = msgspec.structs.replace
    match answer:
        case AssetInactive() | InvalidType() | VersionConflict() if isinstance(
            command, c.FinishAttempt
        ):
            # Of several staged writes that cannot take effect, a store may report any.
            return "nothing applied"
        case HoldfastError():
            return type(answer)
        case int() if isinstance(command, c.Set | c.SetMany):
            return None
        case Entry():
            return replace(answer, version=bool(answer.version))
        case Version():
            return replace(answer, version=0, previous=bool(answer.previous))
        case AssetInfo():
            return replace(answer, asset_id=0)
        case AssetScope():
            return answer.name, answer.uri
        case Found():
            return comparable(command, answer.scope), comparable(command, answer.entry)
        case Page():
            return comparable(command, answer.found), answer.total
        case Expired():
            return answer.expires_at, str(answer.scope), answer.key
        case tuple():
            items = [comparable(command, item) for item in answer]
            return sorted(items) if answer and isinstance(answer[0], Expired) else items
    return answer


class Numbered(NamedTuple):
    """A version, with its scope and key."""

    scope: StoreScope
    key: str
    version: int


def versions(command: Any, answer: Any) -> Iterator[Numbered]:
    """Yield each version that the answer contains."""
    match answer:
        case int() if isinstance(command, c.SetMany):
            for key, _ in command.values:
                yield Numbered(command.scope, key, answer)
        case int() if isinstance(command, c.Set) and not command.on_success:
            yield Numbered(command.scope, command.key, answer)
        case Entry():
            yield Numbered(command.scope, answer.key, answer.version)
        case Version():
            yield Numbered(command.scope, command.key, answer.version)
            yield Numbered(command.scope, command.key, answer.previous)
        case Page():
            for found in answer.found:
                yield Numbered(found.scope, found.entry.key, found.entry.version)
        case tuple():
            for item in answer:
                yield from versions(command, item)


def pages(execute: Callable[[c.Command[Any]], Any], command: c.ListExpired) -> Iterator[Expired]:
    """Yield all rows of a listing, page by page."""
    while rows := execute(command):
        yield from rows
        command = msgspec.structs.replace(command, after=rows[-1])
