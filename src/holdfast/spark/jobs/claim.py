"""Claims of drivers: the driver that has claimed a job's intent runs the job."""

from __future__ import annotations

from typing import Any

import msgspec

from holdfast import commands as c
from holdfast.errors import UnreadableValue, VersionConflict
from holdfast.model.entry import TaskWriter
from holdfast.model.run import Process
from holdfast.model.value import decode_entry, encode
from holdfast.store import Store


class Claim(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A driver's claim to the job of an intent. A claim without a driver bars all drivers."""

    intent: str
    driver: str = ""
    """The driver's id in the cluster."""
    process: Process | None = None
    claimed_at: str = ""
    application: str = ""
    """The id of its Spark application, once reported."""
    page: str = ""
    """The URL of its Spark UI."""
    succeeded: bool | None = None
    """Set once the driver has reported its end."""

    def __str__(self) -> str:
        return f"driver {self.driver} ({self.process})"


class Claims:
    """The entry of the claim, beside the job's id in the task store.

    Of concurrent writers, drivers and submitters alike, one succeeds.
    """

    def __init__(self, store: Store, writer: TaskWriter, key: str, intent: str) -> None:
        self._store = store
        self._writer = writer
        self._key = claim_key(key)
        self._intent = intent

    def read(self) -> tuple[Claim | None, int]:
        """Return the claim of this intent, if there is one, and the version of the entry.

        Raise UnreadableValue if something else is stored there.
        """
        entry = self._store.execute(c.GetEntry(self._writer.scope, self._key))
        if entry is None:
            return None, 0
        where = f"`{self._key}` of {self._writer.scope}"
        value: Any = decode_entry(entry.value, where)
        if not isinstance(value, dict) or value.get("intent") != self._intent:
            return None, entry.version
        try:
            return msgspec.convert(value, Claim), entry.version
        except msgspec.ValidationError as error:
            raise UnreadableValue(
                f"{where} is not a driver's claim: {error}",
                hint="delete the entry, and clear the task",
            ) from None

    def write(self, claim: Claim, version: int) -> int | None:
        """Write the claim and return its new version; None if the entry is not at `version` any
        more."""
        text = encode(msgspec.to_builtins(claim))
        scope, writer = self._writer.scope, self._writer
        try:
            return self._store.execute(
                c.Set(scope, self._key, text, writer, expires_at=None, if_version=version)
            )
        except VersionConflict:
            return None

    def close(self, version: int) -> bool:
        """Bar all drivers from claiming the intent; return False if one has claimed it since
        `version`."""
        return self.write(Claim(intent=self._intent), version) is not None


def claim_key(key: str) -> str:
    """Return the key of the claim for the job whose id is under `key`."""
    return f"{key}.driver"
