"""Forged references: bounded on input, and shown on one line."""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path

import pytest

from holdfast import commands as c
from holdfast.cli import document
from holdfast.errors import BackendFailed, InvalidInput
from holdfast.model.entry import ApiWriter
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.model.value import as_reference
from holdfast.settings import ObjectStore
from holdfast.stores.offload.objects.backend import ObjectStoreBackend
from holdfast.stores.offload.storage import ObjectStorage
from holdfast.stores.offload.store import OffloadStore
from holdfast.testing.memory_store import MemoryStore

ANN = ApiWriter("ann")
TASK = TaskScope("d" * 250, "r" * 250, "t" * 250)
ASSET = AssetScope(name="\U0001f600" * 1500)
FORGED = "s3://lake/\x1b]0;owned\x07\nerror: all is lost"


@pytest.mark.parametrize("place", [FORGED, "s3://lake/\x9b2J", "s3://lake/" + "a" * 8192], ids=len)
def test_a_reference_with_control_characters_or_over_the_limit_is_refused(place: str) -> None:
    text = as_reference(place)

    with pytest.raises(InvalidInput, match="the reference has"):
        c.ReserveObjects(TASK, (("k", text, "r"),), ANN)
    with pytest.raises(InvalidInput, match="the reference has"):
        c.QueueObjects(((TASK, "k", text),))
    lot = c.ScopeEntries(TASK, (("k", text, None),))
    with pytest.raises(InvalidInput, match="the reference has"):
        list(c.AddToLoad("l", 0, 0, (lot,), ANN, as_kept=True).checked())


@pytest.mark.parametrize("scope", [TASK, ASSET], ids=["task", "asset"])
def test_the_longest_names_have_references_within_the_limit(
    tmp_path: Path, scope: TaskScope | AssetScope
) -> None:
    backend = ObjectStoreBackend(ObjectStore(url=f"file://{tmp_path}"))
    place = backend.reference_for(scope, "\U0001f600" * 512, b"1")
    assert place is not None

    assert len(place) < len(str(tmp_path)) + 700
    c.ReserveObjects(scope, (("k", as_reference(place), "r"),), ANN)


def test_references_and_text_that_is_not_json_are_shown_on_one_line() -> None:
    for in_place in (True, False):
        text = as_reference(FORGED, in_place)
        shown = "reference to s3://lake/ ]0;owned error: all is lost"
        assert (document.cell(text), document.line(text, "")) == (shown, shown)
    assert document.cell("\x1b[2Jno json\n") == "(not JSON) [2Jno json"


def test_a_stored_reference_is_shown_on_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    storage_for = ObjectStorage(ObjectStoreBackend(ObjectStore(url=f"file://{tmp_path}")))
    place = f"file://{tmp_path}/\x1b]0;owned\x07"

    with caplog.at_level(logging.WARNING, "holdfast"), pytest.raises(StopIteration):
        next(storage_for.remove([c.Purge(1, TASK, "k", as_reference(place), 0)], 1))
    with pytest.raises(BackendFailed) as error:
        next(storage_for.fetch([(TASK, "k", place)]))

    assert "is not an object" in caplog.text
    assert "\x1b" not in caplog.text + error.value.message


def test_the_stored_error_of_a_failed_deletion_is_bounded() -> None:
    store = MemoryStore()
    store.execute(c.RegisterTask(TASK))
    store.execute(c.QueueObjects(((TASK, "k", as_reference("s3://lake/a")),)))
    [purge] = store.execute(c.TakePurges(1, timedelta(seconds=9), "me")).purges

    store.execute(c.FinishPurges("me", (), ((purge.id, "no" * 10**6),)))

    assert len(store.execute(c.CountPurges()).error) == c.MAX_REASON_LENGTH


def test_hooks_may_keep_a_whole_value_in_their_reference() -> None:
    text = as_reference("[1,\n2]" * 5000, in_place=True)

    c.QueueObjects(((TASK, "k", text),))


def test_a_purge_that_fails_is_logged_on_one_line(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    inner = MemoryStore()
    inner.execute(c.RegisterTask(TASK))
    inner.execute(c.QueueObjects(((TASK, "k", as_reference("s3://lake/a")),)))
    store = OffloadStore(inner, ObjectStoreBackend(ObjectStore(url=f"file://{tmp_path}")))

    def fail(*_: object) -> bool:
        raise BackendFailed("\x1b[2Jno\nerror: forged")

    monkeypatch.setattr(ObjectStoreBackend, "is_reference_of", fail)
    with caplog.at_level(logging.WARNING, "holdfast"):
        store.purge()

    assert "could not be deleted yet: [2Jno error: forged" in caplog.messages[0]
