"""Who asks: a person or tool with a user's token."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request

from holdfast.accessor import Rules, Steps, arun
from holdfast.authority import UserIdentity
from holdfast.command import Command
from holdfast.connection import rules
from holdfast.entry import ApiWriter
from holdfast.errors import Forbidden
from holdfast.server.request import identity_of, perform, settings_of, store_of
from holdfast.settings import Settings

A = TypeVar("A")


class Caller:
    """Whoever sent the request; what they ask is carried out as far as their role allows."""

    def __init__(self, request: Request) -> None:
        identity = identity_of(request)
        if not isinstance(identity, UserIdentity):
            raise Forbidden(
                f"this is for people, and the token is that of {identity}",
                hint="`holdfast auth user-token` makes one; tasks use /execution",
            )
        self._request = request
        self.writer = ApiWriter(identity.user)

    @property
    def settings(self) -> Settings:
        return settings_of(self._request)

    @property
    def rules(self) -> Rules:
        return rules(self.settings)

    def supports(self, command: type[Command[Any]]) -> bool:
        """Whether the configured store can carry out commands of that type at all."""
        return store_of(self._request).supports(command)

    async def aexecute(self, command: Command[A]) -> A:
        """Carry the command out; Forbidden where the role does not allow it."""
        return await perform(self._request, command)

    async def follow(self, steps: Steps[A]) -> A:
        """Carry the steps out, one command after the other."""
        return await arun(self, steps)


def _caller(request: Request) -> Caller:
    return Caller(request)


Asker = Annotated[Caller, Depends(_caller)]
