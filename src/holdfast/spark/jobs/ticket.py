"""What a submitted driver is told about the job that it is to do."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Final

import msgspec

from holdfast.accessor.binding import Rules
from holdfast.errors import InvalidInput, OutsideTask
from holdfast.model.scope import TaskScope

VARIABLE: Final = "HOLDFAST_JOB"
TOKEN_VARIABLE: Final = "HOLDFAST_JOB_TOKEN"  # noqa: S105  (its name, not its content)
"""Spark does not show what has `token` in its name, where it has to be a setting."""


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """Whose job it is, under which intent, and where its stores are."""

    url: str
    token: str
    scope: TaskScope
    key: str
    """Where in the task store the job's id is; its intent and its driver's claim are beside it."""
    intent: str
    rules: Rules
    retry_window: float
    """Seconds that its stores may be away."""
    driver: str = ""
    """The id of the driver, where it is known before there is one."""

    def environment(self) -> dict[str, str]:
        """The variables that tell it to the driver. A command line is there for all to see."""
        without_token = msgspec.structs.replace(self, token="")
        return {VARIABLE: msgspec.json.encode(without_token).decode(), TOKEN_VARIABLE: self.token}

    @classmethod
    def found(cls, environ: Mapping[str, str] = os.environ) -> Ticket:
        """That of this process."""
        text = environ.get(VARIABLE)
        if not text:
            raise OutsideTask(
                "this program is not the driver of a job that Holdfast submitted",
                hint="driver() is for an application that a SparkJob task runs; a program of its "
                "own has its stores by holdfast.connect()",
            )
        try:
            ticket = msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError as error:
            raise InvalidInput(
                f"the variable {VARIABLE} cannot be read: {error}",
                hint="the driver and the task that submits it need the same version of Holdfast",
            ) from None
        return msgspec.structs.replace(ticket, token=environ.get(TOKEN_VARIABLE, ""))
