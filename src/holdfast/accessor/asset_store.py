"""The asset store: the state of one dataset, whatever the run."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any

import msgspec

from holdfast import commands as c
from holdfast.accessor.base import Accessor, check_version, located
from holdfast.errors import InvalidInput, InvalidType
from holdfast.model.entry import Version
from holdfast.model.rewind import rewind_target
from holdfast.model.scope import AssetScope
from holdfast.model.value import JsonValue, decode, encode
from holdfast.store import Steps, arun, run

if TYPE_CHECKING:
    from holdfast.portable.handle import AssetHandle


class AssetStore(Accessor[AssetScope]):
    """The store of one asset, whatever the run. Entries do not expire and have a history."""

    def set(
        self, key: str, value: JsonValue, *, on_success: bool = False, if_version: int | None = None
    ) -> None:
        """Write or overwrite a key; with `on_success`, when this attempt succeeds and only then."""
        run(self._store, self._set(key, value, on_success, if_version))

    async def aset(
        self, key: str, value: JsonValue, *, on_success: bool = False, if_version: int | None = None
    ) -> None:
        await arun(self._store, self._set(key, value, on_success, if_version))

    def set_many(self, values: Mapping[str, JsonValue]) -> None:
        """Write all of the values, or none."""
        run(self._store, self._set_many(values))

    async def aset_many(self, values: Mapping[str, JsonValue]) -> None:
        await arun(self._store, self._set_many(values))

    def advance(self, key: str, value: str | float, *, on_success: bool = False) -> Any:
        """Move a number or string forward, never back; return the current value."""
        return run(self._store, self._advance(key, value, on_success))

    async def aadvance(self, key: str, value: str | float, *, on_success: bool = False) -> Any:
        return await arun(self._store, self._advance(key, value, on_success))

    def clear(self) -> None:
        """Delete every key of this asset."""
        run(self._store, self._write(c.Clear(self._scope, self._writer)))

    async def aclear(self) -> None:
        await arun(self._store, self._write(c.Clear(self._scope, self._writer)))

    def history(self, key: str) -> list[Version[Any]]:
        """Return the last versions, newest first, with time and writer; deletions have no value."""
        return run(self._store, self._history(key))

    async def ahistory(self, key: str) -> list[Version[Any]]:
        return await arun(self._store, self._history(key))

    def rewind(
        self,
        key: str,
        *,
        version: int | None = None,
        run_id: str | None = None,
        at: datetime | None = None,
        dry_run: bool = False,
    ) -> Version[Any] | None:
        """Restore an old value, as a new version: that of `version`, that from before the run
        `run_id` first wrote, or that at the time `at`. Return the version that is restored; None:
        absent."""
        return run(self._store, self._rewind(key, version, run_id, at, dry_run))

    async def arewind(
        self,
        key: str,
        *,
        version: int | None = None,
        run_id: str | None = None,
        at: datetime | None = None,
        dry_run: bool = False,
    ) -> Version[Any] | None:
        return await arun(self._store, self._rewind(key, version, run_id, at, dry_run))

    def handle(self) -> AssetHandle:
        """Return a handle of this store for Spark's executors, to be used inside functions that
        Spark calls there. It is good for as long as the attempt lives."""
        from holdfast.spark.handles import asset_handle

        return asset_handle(self)

    def _set(
        self, key: str, value: JsonValue, on_success: bool, if_version: int | None
    ) -> Steps[int]:
        check_version(if_version)
        text = self._encode(key, value)
        return self._write(
            c.Set(
                self._scope, key, text, self._writer, if_version=if_version, on_success=on_success
            )
        )

    def _set_many(self, values: Mapping[str, JsonValue]) -> Steps[int]:
        return self._write(c.SetMany(self._scope, self._encode_all(values), self._writer))

    def _advance(self, key: str, value: str | float, on_success: bool) -> Steps[Any]:
        try:
            text = encode(value)
        except (InvalidInput, InvalidType) as error:
            raise located(error, f"`{key}` of {self._scope}") from None
        text = yield c.Advance(self._scope, key, text, self._writer, on_success)
        return decode(text)

    def _history(self, key: str) -> Steps[list[Version[Any]]]:
        steps = yield c.History(self._scope, key)
        return [self._decoded(key, step) for step in steps]

    def _decoded(self, key: str, step: Version[str]) -> Version[Any]:
        value = None if step.value is None else self._decode(key, step.value)
        return msgspec.structs.replace(step, value=value)

    def set_for_version(self, key: str, value: JsonValue, if_version: int | None = None) -> int:
        """Set a key, and return the version of the entry, for callers that write it again."""
        return run(self._store, self._set(key, value, False, if_version))

    def _rewind(
        self, key: str, version: int | None, run_id: str | None, at: datetime | None, dry_run: bool
    ) -> Steps[Version[Any] | None]:
        to = rewind_target(version, run_id, at)
        step = yield c.Rewind(self._scope, key, to, self._writer, dry_run)
        return step and self._decoded(key, step)
