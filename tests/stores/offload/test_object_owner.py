"""The scope of an object, from its path or its metadata."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.settings import ObjectStore
from holdfast.stores.offload.objects import naming
from holdfast.stores.offload.objects.backend import ObjectStoreBackend

NAME = "0" * 64 + ".json"


@pytest.mark.parametrize(
    ("scope", "key"),
    [
        (TaskScope("etl", "manual__2026-01-31T00:00:00+00:00", "group.load"), "file a"),
        (TaskScope("ünder/way", "..", "~", 12), "100% {x}/../y"),
        (AssetScope(name="s3://lake/orders"), "until"),
    ],
)
def test_a_path_is_parsed_to_its_scope(scope: StoreScope, key: str) -> None:
    assert naming.whose(f"{naming.folder(scope, key)}/{NAME}") == (scope, key)


@pytest.mark.parametrize(
    "path",
    [
        f"task/by-id/4f1c/key/{NAME}",
        f"task/etl/monday/load/first/key/{NAME}",
        f"task/etl/monday/load/01/key/{NAME}",
        "task/etl/monday/load/-1/key/notes.txt",
        f"asset/orders/with space/{NAME}",
        f"asset//key/{NAME}",
        f"elsewhere/orders/key/{NAME}",
        f"{naming.folder(AssetScope(name='x' * 300), 'key')}/{NAME}",
    ],
)
def test_a_foreign_path_has_no_scope(path: str) -> None:
    assert naming.whose(path) is None


def test_metadata_has_names_that_are_too_long_for_a_path() -> None:
    scope = AssetScope(name="ä" * 100)
    path = f"{naming.folder(scope, 'key')}/{NAME}"

    assert naming.whose(path, naming.metadata(naming.owner(scope), "key")) == (scope, "key")
    assert naming.whose(path, {"asset": "another", "key": "key"}) is None


def test_an_object_has_its_scope_in_its_metadata_and_a_file_does_not(tmp_path: Path) -> None:
    scope = AssetScope(name="x" * 300)
    told = []
    for url in ("memory://whose", f"file://{tmp_path}"):
        backend = ObjectStoreBackend(ObjectStore(url=url))
        reference = backend.reference_for(scope, "key", b"1") or ""
        backend.put(reference, scope, "key", b"1")
        told.append(backend.whose(reference))

    assert told == [(scope, "key"), None]


def test_an_object_is_there_until_it_is_removed(backend: ObjectStoreBackend) -> None:
    scope = AssetScope(name="orders")
    one, other = (backend.reference_for(scope, key, b"1") or "" for key in ("a", "b"))
    backend.put(one, scope, "a", b"1")
    backend.put(other, scope, "b", b"1")

    backend.remove([one])

    assert (backend.is_there(one), backend.is_there(other)) == (False, True)
