"""The ticket of a job: its identity and credentials, passed to the submitted driver."""

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
"""Where it has to be a setting, Spark redacts it, because its name contains `token`."""


class Ticket(msgspec.Struct, frozen=True, kw_only=True):
    """The task of a job, its intent, and how to reach its stores."""

    url: str
    token: str
    scope: TaskScope
    key: str
    """The key of the job's id in the task store; its intent and its driver's claim are beside
    it."""
    intent: str
    rules: Rules
    retry_window: float
    """Seconds that its stores may be unreachable."""
    driver: str = ""
    """The id of the driver, if known before submission."""

    def environment(self) -> dict[str, str]:
        """Return the environment variables for the driver; a command line would be visible to
        all."""
        without_token = msgspec.structs.replace(self, token="")
        return {VARIABLE: msgspec.json.encode(without_token).decode(), TOKEN_VARIABLE: self.token}

    @classmethod
    def found(cls, environ: Mapping[str, str] = os.environ) -> Ticket:
        """Return the ticket of this process. Raise OutsideTask if there is none, and InvalidInput
        if it cannot be read."""
        text = environ.get(VARIABLE)
        if not text:
            raise OutsideTask(
                "this program is not the driver of a job that Holdfast submitted",
                hint="driver() is for applications that a SparkJob task submits; other programs "
                "use holdfast.connect()",
            )
        try:
            ticket = msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError as error:
            raise InvalidInput(
                f"the environment variable {VARIABLE} cannot be parsed: {error}",
                hint="install the same version of Holdfast for the driver and for the task that "
                "submits it",
            ) from None
        return msgspec.structs.replace(ticket, token=environ.get(TOKEN_VARIABLE, ""))
