"""Assets that a task declares: its process may use them, and report events of its outlets."""

from __future__ import annotations

from typing import NamedTuple

from holdfast import commands as c
from holdfast.access.identity import ChildIdentity
from holdfast.errors import UnknownAsset
from holdfast.model.dag import AliasSpec, TaskSpec
from holdfast.model.entry import TaskWriter
from holdfast.model.run import EmittedEvent
from holdfast.model.scope import AssetScope
from holdfast.runner.protocol.messages import Failed, Report, Succeeded
from holdfast.store import Store


class Declared(NamedTuple):
    """The assets that a task declares, as they were when its attempt began."""

    named: tuple[AssetScope, ...]
    """The assets among its inlets and outlets."""
    aliases: dict[str, tuple[AssetScope, ...]]
    """The assets behind each alias among its inlets."""

    @classmethod
    def by(cls, task: TaskSpec, store: Store) -> Declared:
        """Look up the assets that a task declares; those unknown to the store stay as given."""
        aliases: dict[str, tuple[AssetScope, ...]] = {}
        named: dict[AssetScope, None] = {}
        for one in (*task.inlets, *task.outlets):
            if not isinstance(one, AliasSpec):
                named[_known(AssetScope(name=one.name, uri=one.uri), store)] = None
            elif one in task.inlets:
                found = store.execute(c.AliasAssets(one.name))
                aliases[one.name] = tuple(info.scope for info in found)
        return cls(tuple(named), aliases)

    def child(self, writer: TaskWriter) -> ChildIdentity:
        """Return the identity of the process of the task's attempt."""
        scopes = [*self.named, *(scope for behind in self.aliases.values() for scope in behind)]
        return ChildIdentity(
            writer,
            tuple((scope.name, scope.uri) for scope in scopes),
            tuple(scope.asset_id for scope in scopes if scope.asset_id is not None),
        )


def _known(scope: AssetScope, store: Store) -> AssetScope:
    try:
        return store.execute(c.GetAsset(scope)).scope
    except UnknownAsset:
        return scope


def own_report(task: TaskSpec, report: Report | None) -> Report | None:
    """Return the report of a task, or a failure if it has events of undeclared outlets."""
    for event in report.events if isinstance(report, Succeeded) else ():
        if not _is_own(task, event):
            by = f" by the aliases {', '.join(event.aliases)}" if event.aliases else ""
            return Failed(
                error=f"it reported an event of asset `{event.name}`{by}, which is not among the "
                "outlets that the task declares"
            )
    return report


def _is_own(task: TaskSpec, event: EmittedEvent) -> bool:
    aliases = {one.name for one in task.outlets if isinstance(one, AliasSpec)}
    # A reference has only one of name and URI.
    named = any(
        one.name in (None, event.name) and one.uri in (None, event.uri)
        for one in task.outlets
        if not isinstance(one, AliasSpec)
    )
    return (named or bool(event.aliases)) and aliases.issuperset(event.aliases)
