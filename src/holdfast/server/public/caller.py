"""The caller of the public API: a person or tool with a user's token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeVar, cast

from fastapi import Depends, Request
from msgspec.structs import replace

from holdfast.access.identity import UserIdentity
from holdfast.accessor.binding import Rules
from holdfast.commands import Command, History, RunEvents
from holdfast.commands.paging import LARGEST_PAGE, bounded, may_go_on
from holdfast.connection import rules
from holdfast.errors import Forbidden, ValueTooLarge
from holdfast.model.entry import ApiWriter, Page
from holdfast.server.http.request import identity_of, perform, settings_of, store_of
from holdfast.settings import Settings
from holdfast.store import Steps, arun

A = TypeVar("A")


class Caller:
    """The sender of a request, whose commands are executed as far as their role allows."""

    def __init__(self, request: Request) -> None:
        identity = identity_of(request)
        if not isinstance(identity, UserIdentity):
            raise Forbidden(
                f"this is for people, and the token is that of {identity}",
                hint="`holdfast auth user-token` prints a token for a person; tasks use /execution",
            )
        self._request = request
        self.identity = identity
        self.writer = ApiWriter(identity.user)

    @property
    def settings(self) -> Settings:
        return settings_of(self._request)

    @property
    def rules(self) -> Rules:
        return rules(self.settings)

    def supports(self, command: type[Command[Any]]) -> bool:
        """Return whether the configured store can execute commands of that type at all."""
        return store_of(self._request).supports(command)

    async def aexecute(self, command: Command[A]) -> A:
        """Execute the command. Raise Forbidden where the role does not allow it, and ValueTooLarge
        where the values of a list are too large for one response. The list is not shortened: a
        client that adds `limit` to `offset` would not see the rest."""
        answer = await perform(self._request, bounded(command))
        if may_go_on(command, answer):
            if isinstance(command, History):
                steps = cast(Sequence[Any], answer)
                older = replace(command, before=steps[-1].version, max_size=0)
                if not await perform(self._request, older):
                    return answer
            raise _too_large(command, answer)
        return answer

    async def follow(self, steps: Steps[A]) -> A:
        """Execute the steps, one command after the other."""
        return await arun(self, steps)


def _too_large(command: Command[Any], answer: Any) -> ValueTooLarge:
    count = len(answer.found if isinstance(answer, Page) else answer)
    hint = f"request fewer at a time, with limit={count}"
    if isinstance(command, History):
        hint = "`holdfast state-store history` reads them in pages"
    elif isinstance(command, RunEvents):
        hint = "`holdfast runs show` reads them in pages"
    return ValueTooLarge(
        f"the values of the first {count} items have more than {LARGEST_PAGE:,} characters, too "
        "many for one response",
        hint=hint,
    )


def _caller(request: Request) -> Caller:
    return Caller(request)


CallerDep = Annotated[Caller, Depends(_caller)]
