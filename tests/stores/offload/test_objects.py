"""ObjectStoreBackend on each kind of storage."""

from __future__ import annotations

import hashlib
import os
import pickle
from pathlib import Path

import msgspec
import pytest
from objectserver import ObjectServer

from holdfast.errors import BackendFailed, NotSupported, ObjectMissing
from holdfast.model.scope import AssetScope, StoreScope, TaskScope
from holdfast.settings import ObjectStore
from holdfast.stores.offload.objects.backend import ObjectStoreBackend

TASK = TaskScope("sales", "r/1", "load ü", 2)
ASSET = AssetScope(name="orders")
LARGE = b'"' + b"0123456789abcdef" * 2**16 * 11 + b'"'


def stored(backend: ObjectStoreBackend, scope: StoreScope, key: str, content: bytes) -> str:
    reference = backend.reference_for(scope, key, content)
    assert reference is not None
    backend.put(reference, scope, key, content)
    return reference


def listed(backend: ObjectStoreBackend, prefix: str = "") -> set[str]:
    return {found.reference for found in backend.list_objects(prefix)}


@pytest.mark.parametrize("compression", ["none", "zstd", "gzip"])
@pytest.mark.parametrize("content", [b"1", LARGE], ids=["small", "in parts"])
def test_a_stored_object_can_be_fetched(url: str, compression: str, content: bytes) -> None:
    backend = ObjectStoreBackend(ObjectStore(url=url, compression=compression))  # type: ignore[arg-type]

    reference = stored(backend, TASK, "../k 😀", content)

    assert backend.fetch(reference) == content
    assert reference.startswith(
        f"{url}/task/sales/r%2F1/load%20%C3%BC/2/%2E%2E%2Fk%20%F0%9F%98%80/"
    )
    assert hashlib.sha256(content).hexdigest() in reference


@pytest.mark.parametrize("compression", ["none", "zstd", "gzip"])
def test_an_object_over_the_limit_is_not_fetched(url: str, compression: str) -> None:
    settings = ObjectStore(url=url, compression=compression)  # type: ignore[arg-type]
    reference = stored(ObjectStoreBackend(settings), TASK, "k", LARGE)
    limited = ObjectStoreBackend(msgspec.structs.replace(settings, max_value_bytes=2**20))

    with pytest.raises(BackendFailed, match="the limit is 1,048,576"):
        limited.fetch(reference)


@pytest.mark.parametrize("linked", ["task", "task/sales", ""])
def test_an_object_behind_a_link_is_neither_read_nor_written_nor_deleted(
    tmp_path: Path, linked: str
) -> None:
    backend = ObjectStoreBackend(ObjectStore(url=f"file://{tmp_path}/root"))
    reference = stored(backend, TASK, "k", b'"precious"')
    at = Path(reference.removeprefix("file://")) if not linked else tmp_path / "root" / linked
    at.rename(tmp_path / "elsewhere")
    at.symlink_to(tmp_path / "elsewhere")

    with pytest.raises(BackendFailed, match="behind a symbolic link"):
        backend.fetch(reference)
    with pytest.raises(BackendFailed, match="behind a symbolic link"):
        backend.put(reference, TASK, "k", b'"precious"')
    assert "symbolic link" in backend.remove([reference])[reference]
    at.unlink()
    (tmp_path / "elsewhere").rename(at)
    assert backend.fetch(reference) == b'"precious"'


def test_the_directory_of_the_url_may_be_a_link(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "root").symlink_to("disk")
    backend = ObjectStoreBackend(ObjectStore(url=f"file://{tmp_path}/root"))

    reference = stored(backend, TASK, "k", b"1")

    assert backend.fetch(reference) == b"1"
    assert backend.remove([reference]) == {}


def test_the_listing_gives_back_the_references(backend: ObjectStoreBackend) -> None:
    references = {
        stored(backend, TASK, "../k%20😀" * 40, b"1"),
        stored(backend, TASK, "..", b"1"),
        stored(backend, ASSET, "~", b"12"),
    }

    found = list(backend.list_objects())

    assert {each.reference for each in found} == references
    assert sorted(each.size for each in found) == [1, 1, 2]
    assert all(each.last_modified.tzinfo is not None for each in found)


def test_the_prefixes_of_the_third_level_divide_the_listing(backend: ObjectStoreBackend) -> None:
    references = {
        stored(backend, TaskScope("d1", "r1", "t"), "k", b"1"),
        stored(backend, TaskScope("d1", "r2", "t"), "k", b"1"),
        stored(backend, ASSET, "cursor", b"1"),
        backend.serialize_task_store_to_ref(value=1, key="k", ti_id=str(TASK.ti_id)),
    }

    kinds = backend.prefixes()
    parts = [
        deep for kind in kinds for top in backend.prefixes(kind) for deep in backend.prefixes(top)
    ]

    assert kinds == ["asset", "task"]
    assert parts == [
        "asset/orders/cursor",
        f"task/by-id/{TASK.ti_id}",
        "task/d1/r1",
        "task/d1/r2",
    ]
    assert [len(listed(backend, part)) for part in parts] == [1, 1, 1, 1]
    assert set().union(*(listed(backend, part) for part in parts)) == references


def test_in_empty_storage_nothing_is_listed_or_deleted(
    backend: ObjectStoreBackend,
) -> None:
    backend.delete(TASK, "k")
    backend.clear(TASK)

    assert listed(backend) == set() and backend.prefixes() == []


def test_content_below_the_threshold_is_not_offloaded() -> None:
    backend = ObjectStoreBackend(ObjectStore(url="memory://", threshold_bytes=3))

    assert backend.reference_for(TASK, "k", b"12") is None
    assert backend.reference_for(TASK, "k", b"123") is not None


def test_an_existing_object_is_not_written_again(tmp_path: Path) -> None:
    backend = ObjectStoreBackend(ObjectStore(url=f"file://{tmp_path}/o"))
    reference = stored(backend, TASK, "k", b"1")
    before = Path(reference.removeprefix("file://")).stat()

    backend.put(reference, TASK, "k", b"1")

    assert Path(reference.removeprefix("file://")).stat() == before


@pytest.mark.parametrize("content", [b"12345", LARGE], ids=["small", "in parts"])
def test_putting_again_repairs_a_truncated_object(content: bytes, tmp_path: Path) -> None:
    backend = ObjectStoreBackend(ObjectStore(url=f"file://{tmp_path}/o"))
    reference = stored(backend, TASK, "k", content)
    Path(reference.removeprefix("file://")).write_bytes(content[:3])

    backend.put(reference, TASK, "k", content)

    assert backend.fetch(reference) == content


@pytest.mark.parametrize("content", [b"12345", LARGE], ids=["small", "in parts"])
def test_putting_again_renews_the_time_of_an_old_object(content: bytes, tmp_path: Path) -> None:
    backend = ObjectStoreBackend(ObjectStore(url=f"file://{tmp_path}/o"))
    reference = stored(backend, TASK, "k", content)
    path = Path(reference.removeprefix("file://"))
    os.utime(path, (0, 0))

    backend.put(reference, TASK, "k", content)

    assert path.stat().st_mtime > 0


def test_the_error_for_a_missing_object_names_it(backend: ObjectStoreBackend) -> None:
    gone = stored(backend, TASK, "k", b"1")
    stored(backend, TASK, "other", b"1")
    assert backend.remove([gone]) == {}

    with pytest.raises(ObjectMissing) as raised:
        backend.fetch(gone)

    assert gone in raised.value.message and raised.value.hint


@pytest.mark.parametrize("suffix", ["", ".gz", ".zst"])
def test_the_error_for_a_changed_object_names_it(suffix: str, tmp_path: Path) -> None:
    compression = {"": "none", ".gz": "gzip", ".zst": "zstd"}[suffix]
    backend = ObjectStoreBackend(
        ObjectStore(url=f"file://{tmp_path}/o", compression=compression)  # type: ignore[arg-type]
    )
    reference = stored(backend, TASK, "k", b'"value"' * 50)
    path = Path(reference.removeprefix("file://"))
    half = path.read_bytes()[: path.stat().st_size // 2]

    for damage in (half, b"", b"something else"):
        path.write_bytes(damage)
        with pytest.raises(BackendFailed, match="another digest") as raised:
            backend.fetch(reference)
        assert reference in raised.value.message


def test_the_error_for_an_object_changed_on_the_server_names_it(s3: ObjectServer) -> None:
    backend = ObjectStoreBackend(ObjectStore(url=s3.make_bucket()))
    reference = stored(backend, TaskScope("d", "r", "t"), "k", b"1")
    s3.overwrite(reference, b"2")

    with pytest.raises(BackendFailed, match="another digest"):
        backend.fetch(reference)


def test_removing_counts_absent_objects_as_deleted(backend: ObjectStoreBackend) -> None:
    references = [stored(backend, TASK, f"k{n}", b"1") for n in range(5)]
    assert backend.remove(references[1:3]) == {}

    assert backend.remove(references) == {}

    assert listed(backend) == set()


def test_empty_directories_are_removed_with_the_last_object_except_the_root(tmp_path: Path) -> None:
    backend = ObjectStoreBackend(ObjectStore(url=f"file://{tmp_path}/o"))
    reference = stored(backend, TASK, "k", b"1")

    backend.remove([reference])

    assert list((tmp_path / "o").iterdir()) == []


def test_a_foreign_reference_is_neither_read_nor_removed(tmp_path: Path) -> None:
    backend = ObjectStoreBackend(ObjectStore(url=f"file://{tmp_path}/o"))
    stored(backend, TASK, "k", b"1")
    precious = tmp_path / "precious.json"
    precious.write_text("1")
    digest = "0" * 64
    strange = [
        f"file://{precious}",
        f"s3://bucket/task/{digest}.json",
        f"file://host/{digest}.json",
        f"file://{tmp_path}/o/../{digest}.json",
        f"file://{tmp_path}/task/d/r/t/-1/k/{digest}.json",
        f"file://{tmp_path}/o/staging/task/d/r/t/-1/k/{digest}.json",
        "",
        '{"a": 1}',
    ]

    for reference in strange:
        with pytest.raises(BackendFailed):
            backend.fetch(reference)

    assert backend.remove(strange).keys() == set(strange)
    assert not any(map(backend.is_there, strange))
    assert precious.exists()


def test_files_of_others_below_the_url_are_not_listed_or_cleared(tmp_path: Path) -> None:
    backend = ObjectStoreBackend(ObjectStore(url=f"file://{tmp_path}"))
    reference = stored(backend, TASK, "k", b"1")
    note = Path(reference.removeprefix("file://")).with_name("note.txt")
    note.write_text("mine")
    (tmp_path / f"{'0' * 64}.json").write_text("1")

    assert listed(backend) == {reference}
    backend.clear(TASK)

    assert note.exists()


def test_after_a_change_of_url_and_compression_old_references_are_still_valid(
    s3: ObjectServer,
) -> None:
    bucket = s3.make_bucket()
    old = ObjectStoreBackend(ObjectStore(url=f"{bucket}/old", compression="gzip"))
    reference = stored(old, TASK, "k", b"123")

    for url in (f"{bucket}/new", s3.make_bucket()):
        new = ObjectStoreBackend(ObjectStore(url=url, former_urls=(f"{bucket}/old",)))
        assert new.fetch(reference) == b"123"
    assert new.remove([reference]) == {}

    assert listed(old) == set()


def test_delete_removes_all_contents_of_the_key_and_no_other(backend: ObjectStoreBackend) -> None:
    stored(backend, TASK, "k", b"1")
    stored(backend, TASK, "k", b"2")
    backend.serialize_task_store_to_ref(value=3, key="k", ti_id=str(TASK.ti_id))
    others = {stored(backend, TASK, "k2", b"1"), stored(backend, ASSET, "k", b"1")}

    backend.delete(TASK, "k")

    assert listed(backend) == others


def test_clear_removes_the_scope_or_all_its_indices(backend: ObjectStoreBackend) -> None:
    stored(backend, TASK, "k", b"1")
    sibling = TaskScope(TASK.dag_id, TASK.run_id, TASK.task_id, 20)
    others = {stored(backend, sibling, "k", b"1"), stored(backend, ASSET, "k", b"1")}

    backend.clear(TASK)
    assert listed(backend) == others

    backend.clear(TASK, all_map_indices=True)
    assert listed(backend) == {f for f in others if "/asset/" in f}


async def test_delete_and_clear_have_async_variants(backend: ObjectStoreBackend) -> None:
    stored(backend, TASK, "k", b"1")
    stored(backend, ASSET, "k", b"1")

    await backend.adelete(TASK, "k")
    await backend.aclear(ASSET)

    assert listed(backend) == set()


def test_the_hooks_store_and_return_values(url: str) -> None:
    backend = ObjectStoreBackend(ObjectStore(url=url, threshold_bytes=20))
    task, asset = {"ti_id": str(TASK.ti_id)}, {"asset_ref": "s3://raw/orders"}
    long, short = ["x" * 50, {"ü": None}], "s3://x"

    kept = backend.serialize_task_store_to_ref(value=long, key="k", **task)
    other = backend.serialize_asset_store_to_ref(value=long, key="k", **asset)

    assert kept.startswith(f"{url}/task/by-id/{TASK.ti_id}/k/")
    assert other.startswith(f"{url}/asset/s3%3A%2F%2Fraw%2Forders/k/")
    assert kept == backend.serialize_task_store_to_ref(value=long, key="k", **task)
    assert backend.deserialize_task_store_from_ref(kept) == long
    assert backend.deserialize_asset_store_from_ref(other) == long
    inline = backend.serialize_task_store_to_ref(value=short, key="k", **task)
    assert inline == '"s3://x"'
    assert backend.deserialize_task_store_from_ref(inline) == short


def test_objects_have_the_scope_in_their_metadata(s3: ObjectServer) -> None:
    bucket = s3.make_bucket()
    backend = ObjectStoreBackend(ObjectStore(url=bucket))
    references = stored(backend, TASK, "k ü", b"1"), stored(backend, ASSET, "k", LARGE)

    said = [s3.metadata(reference) for reference in references]

    task = {"dag": "sales", "run": "r%2F1", "task": "load%20%C3%BC", "index": "2"}
    assert said[0].items() >= {**task, "key": "k%20%C3%BC"}.items()
    assert said[1].items() >= {"asset": "orders", "key": "k"}.items()


def test_a_pickled_backend_opens_its_storage_anew(backend: ObjectStoreBackend) -> None:
    reference = stored(backend, TASK, "k", b"1")

    copy: ObjectStoreBackend = pickle.loads(pickle.dumps(backend))

    assert copy.fetch(reference) == b"1"


def test_an_object_store_backend_is_not_a_server_side_backend() -> None:
    backend = ObjectStoreBackend(ObjectStore(url="memory://"))

    with pytest.raises(NotSupported, match="for workers"):
        backend.get(TASK, "k")
    with pytest.raises(NotSupported, match="for workers"):
        backend.set(TASK, "k", "1")
