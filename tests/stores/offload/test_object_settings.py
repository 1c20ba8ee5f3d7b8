"""Settings of the object store."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import InvalidSettings
from holdfast.settings import load, rows
from holdfast.stores.backend.base import load_backend
from holdfast.stores.offload.objects.backend import ObjectStoreBackend

VARIABLE = "HOLDFAST__OBJECT_STORE__URL"
FORMER = "HOLDFAST__OBJECT_STORE__FORMER_URLS"


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("", ""),
        ("s3://bucket", "s3://bucket"),
        ("s3://bucket/some/prefix/", "s3://bucket/some/prefix"),
        ("gs://my.bucket_1/x=1", "gs://my.bucket_1/x=1"),
        ("az://container/prefix", "az://container/prefix"),
        ("file:///data/our values", "file:///data/our values"),
        ("memory://", "memory://"),
        ("memory://name", "memory://name"),
    ],
)
def test_a_trailing_slash_of_a_url_is_removed(given: str, kept: str, tmp_path: Path) -> None:
    assert load(tmp_path, {VARIABLE: given}).object_store.url == kept


@pytest.mark.parametrize(
    "given",
    [
        "bucket",
        "s3:bucket",
        "s3://",
        "s3:///prefix",
        "s3://bucket//prefix",
        "s3://bucket/../other",
        "s3://bucket/%2e%2e",
        "s3://bucket?region=x",
        "s3://key:hidden@bucket",
        "ftp://host/path",
        "http://host/bucket",
        "file://relative/path",
        "file:///",
        "file:///data/./x",
        "./data",
    ],
)
def test_an_invalid_url_stops_the_start(given: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings) as raised:
        load(tmp_path, {VARIABLE: given})

    assert raised.value.message.startswith("object_store.url may not be")
    assert "s3://bucket/prefix" in raised.value.hint
    assert "hidden" not in str(raised.value)


def test_former_urls_are_a_list_in_the_file_and_in_the_environment(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text(
        '[object_store]\nformer_urls = ["s3://old/prefix/", "file:///data"]\n'
    )

    of_file = load(tmp_path, {})
    of_environment = load(tmp_path, {FORMER: '["gs://older"]'})
    shown = {row.name: row.value for row in rows(of_file)}

    assert of_file.object_store.former_urls == ("s3://old/prefix", "file:///data")
    assert of_environment.object_store.former_urls == ("gs://older",)
    assert load(tmp_path, {FORMER: ""}).object_store.former_urls == ()
    assert shown["object_store.former_urls"] == '["s3://old/prefix","file:///data"]'


@pytest.mark.parametrize("given", ["s3://old", '"s3://old"', "[1]", '["http://x"]', '[""]', "{}"])
def test_invalid_former_urls_stop_the_start(given: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="object_store.former_urls may not be") as raised:
        load(tmp_path, {FORMER: given})

    assert '["s3://bucket/prefix"]' in raised.value.hint


def test_an_unknown_compression_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match="object_store.compression") as raised:
        load(tmp_path, {"HOLDFAST__OBJECT_STORE__COMPRESSION": "lz4"})

    assert raised.value.hint == "give one of none, zstd, gzip"


def test_the_sections_can_be_written_in_the_file(tmp_path: Path) -> None:
    (tmp_path / "holdfast.toml").write_text(
        '[workers]\nstate_backend = "holdfast.sdk.state.ObjectStoreBackend"\n'
        '[object_store]\nurl = "memory://x"\nthreshold_bytes = 100\ncompression = "zstd"\n'
    )

    settings = load(tmp_path, {})
    shown = {row.name: row.value for row in rows(settings)}

    assert settings.workers.state_backend == "holdfast.sdk.state.ObjectStoreBackend"
    assert shown["object_store.threshold_bytes"] == 100
    assert shown["object_store.compression"] == "zstd"


def test_the_backend_is_created_from_the_current_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "memory://from-settings")

    backend = load_backend("holdfast.sdk.state.ObjectStoreBackend")

    assert isinstance(backend, ObjectStoreBackend)
    reference = backend.serialize_asset_store_to_ref(value=1, key="k", asset_ref="orders")
    assert reference.startswith("memory://from-settings/asset/orders/k/")
