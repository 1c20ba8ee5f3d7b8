"""Requests to other clouds, of which there is no server here."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from webserver import Answer, answer, serving

from holdfast.errors import BackendFailed
from holdfast.model.scope import TaskScope
from holdfast.settings import ObjectStore
from holdfast.stores.offload.objects.backend import ObjectStoreBackend

SCOPE = TaskScope("sales", "r 1", "load")
CLOUDS = {
    "gs": {"GOOGLE_BASE_URL": "", "GOOGLE_BEARER_TOKEN": "token"},
    "az": {
        "AZURE_STORAGE_ENDPOINT": "",
        "AZURE_STORAGE_ACCOUNT_NAME": "account",
        "AZURE_STORAGE_ACCOUNT_KEY": "c2VjcmV0",
    },
}
STORED = answer(201, b"", etag='"1"', x_goog_generation="1")


def use(scheme: str, url: str, monkeypatch: pytest.MonkeyPatch) -> ObjectStoreBackend:
    for name, value in CLOUDS[scheme].items():
        monkeypatch.setenv(name, value or url)
    return ObjectStoreBackend(ObjectStore(url=f"{scheme}://bucket/prefix"))


@pytest.mark.parametrize(
    ("scheme", "condition", "metadata"),
    [
        ("gs", ("x-goog-if-generation-match", "0"), "x-goog-meta-"),
        ("az", ("if-none-match", "*"), "x-ms-meta-"),
    ],
)
def test_an_object_is_created_once_with_its_scope_in_the_metadata(
    scheme: str, condition: tuple[str, str], metadata: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(STORED) as server:
        backend = use(scheme, server.url, monkeypatch)
        reference = str(backend.reference_for(SCOPE, "k", b"1"))
        backend.put(reference, SCOPE, "k", b"1")
        [sent] = server.requests

    assert reference.startswith(f"{scheme}://bucket/prefix/task/sales/r%201/load/-1/k/")
    assert "/prefix/task/sales/r%201/load/-1/k/" in unquote(sent.line)
    assert sent.body == b"1"
    assert sent.headers.items() >= {condition, (f"{metadata}dag", "sales"), (f"{metadata}key", "k")}


@pytest.mark.parametrize(
    ("scheme", "reply"),
    [
        ("gs", answer(404, b'{"error": {"message": "The specified bucket does not exist."}}')),
        ("az", answer(404, b"<Error><Code>ContainerNotFound</Code></Error>")),
    ],
)
def test_a_missing_bucket_is_an_error_that_says_so(
    scheme: str, reply: Answer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(reply) as server:
        backend = use(scheme, server.url, monkeypatch)
        reference = str(backend.reference_for(SCOPE, "k", b"1"))

        with pytest.raises(BackendFailed, match="the bucket does not exist"):
            backend.fetch(reference)


def test_the_error_for_a_missing_azure_account_asks_for_it() -> None:
    backend = ObjectStoreBackend(ObjectStore(url="az://container"))

    with pytest.raises(BackendFailed, match="credentials are missing") as raised:
        backend.put(str(backend.reference_for(SCOPE, "k", b"1")), SCOPE, "k", b"1")

    assert "AZURE_STORAGE_ACCOUNT_NAME" in raised.value.hint
