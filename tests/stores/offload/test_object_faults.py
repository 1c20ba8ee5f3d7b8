"""Faults of the object storage, and the errors that a worker gets."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from datetime import timedelta
from pathlib import Path

import pytest
from objectserver import ObjectServer
from obstore.exceptions import GenericError
from webserver import LOST, Answer, WebServer, answer, free_port, serving

from holdfast.errors import BackendFailed, InvalidSettings, MissingDependency, ObjectMissing
from holdfast.model.scope import TaskScope
from holdfast.settings import ObjectStore
from holdfast.stores.offload.objects import opening
from holdfast.stores.offload.objects.backend import ObjectStoreBackend
from holdfast.stores.offload.objects.failure import reason

TASK = TaskScope("d", "r", "t")
NAME = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b.json"
REFERENCE = f"s3://bucket/task/d/r/t/-1/k/{NAME}"
SILENT = Answer()
STORED = answer(200, b"", etag='"1"')
BUSY = answer(503, b"<Error><Code>SlowDown</Code></Error>")


@pytest.fixture(autouse=True)
def credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "very-secret")
    monkeypatch.setattr(opening, "SILENCE_TIMEOUT", timedelta(seconds=0.5))
    monkeypatch.setattr(opening, "RETRY_TIMEOUT", timedelta(seconds=0.4))


@pytest.fixture
def backend() -> ObjectStoreBackend:
    return ObjectStoreBackend(ObjectStore(url="s3://bucket"))


def use(server: WebServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", server.url)


def refusal_of_put(backend: ObjectStoreBackend) -> BackendFailed:
    with pytest.raises(BackendFailed) as raised:
        backend.put(REFERENCE, TASK, "k", b"1")
    return raised.value


def refusal_of_fetch(backend: ObjectStoreBackend) -> BackendFailed:
    with pytest.raises(BackendFailed) as raised:
        backend.fetch(REFERENCE)
    return raised.value


def test_a_missing_bucket_is_not_taken_for_a_missing_object(s3: ObjectServer) -> None:
    backend = ObjectStoreBackend(ObjectStore(url="s3://no-such-bucket"))
    reference = f"s3://no-such-bucket/task/d/r/t/-1/k/{NAME}"

    with pytest.raises(BackendFailed, match="the bucket does not exist") as writing:
        backend.put(reference, TASK, "k", b"1")
    with pytest.raises(BackendFailed, match="the bucket does not exist") as reading:
        backend.fetch(reference)
    with pytest.raises(BackendFailed, match="the bucket does not exist"):
        list(backend.list_objects())
    with pytest.raises(BackendFailed, match="the bucket does not exist"):
        backend.prefixes()
    with pytest.raises(BackendFailed, match="the bucket does not exist"):
        backend.clear(TASK)

    assert not isinstance(reading.value, ObjectMissing)
    assert reference in writing.value.message
    assert "[object_store] url" in writing.value.hint
    assert "the bucket does not exist" in backend.remove([reference])[reference]


@pytest.mark.parametrize(
    ("reply", "expected"),
    [
        (answer(403, b"<Error><Code>AccessDenied</Code></Error>"), "permission denied (403"),
        (answer(403, b"<Code>InvalidAccessKeyId</Code>"), "credentials are missing or not"),
        (answer(301, b"<Code>PermanentRedirect</Code>"), "another region"),
        (answer(400, b"<Code>AuthorizationHeaderMalformed</Code>"), "another region"),
        (answer(400, b"<Code>InvalidRequest</Code>"), "InvalidRequest"),
        (BUSY, "is unavailable (503"),
        (SILENT, "does not answer"),
    ],
)
def test_a_refusal_of_the_server_is_explained_without_secrets(
    reply: Answer,
    expected: str,
    backend: ObjectStoreBackend,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with serving(reply) as server:
        use(server, monkeypatch)
        began = time.monotonic()
        errors = refusal_of_put(backend), refusal_of_fetch(backend)
        took = time.monotonic() - began

    for error in errors:
        assert expected in error.message and REFERENCE in error.message
        assert error.hint
        assert "very-secret" not in str(error) and "127.0.0.1" not in str(error)
    assert took < 5


def test_a_server_that_stalls_within_a_body_times_out(
    backend: ObjectStoreBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    reply = answer(200, b"1", content_length="5000", last_modified="Mon, 16 Nov 2026 08:00:00 GMT")
    with serving(reply) as server:
        use(server, monkeypatch)
        error = refusal_of_fetch(backend)

    assert "does not answer" in error.message


def test_a_request_to_a_temporarily_busy_server_is_retried(
    backend: ObjectStoreBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(BUSY, STORED) as server:
        use(server, monkeypatch)
        backend.put(REFERENCE, TASK, "k", b"1")

        assert [request.body for request in server.requests] == [b"1", b"1"]


def test_a_write_whose_connection_broke_is_retried(
    backend: ObjectStoreBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(LOST, STORED) as server:
        use(server, monkeypatch)
        backend.put(REFERENCE, TASK, "k", b"1")

        assert [request.body for request in server.requests] == [b"1", b"1"]


def test_a_retry_of_a_write_with_a_lost_answer_finds_the_object(
    backend: ObjectStoreBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.strftime("%a, %d %b %Y %H:%M:%S GMT", time.gmtime())
    with serving(
        BUSY,
        answer(412, b"<Code>PreconditionFailed</Code>"),
        answer(200, b"", content_length="1", last_modified=now, etag='"1"'),
    ) as server:
        use(server, monkeypatch)
        backend.put(REFERENCE, TASK, "k", b"1")

        assert [r.line.partition(" ")[0] for r in server.requests] == ["PUT", "PUT", "HEAD"]


def test_an_unavailable_server_is_an_error_that_says_so(
    backend: ObjectStoreBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free_port()}")

    assert "does not answer" in refusal_of_put(backend).message
    assert "does not answer" in backend.remove([REFERENCE])[REFERENCE]


def test_the_names_of_dags_are_not_taken_for_messages_of_the_server(s3: ObjectServer) -> None:
    backend = ObjectStoreBackend(ObjectStore(url=s3.make_bucket()))
    scope = TaskScope("NoSuchBucket", "AccessDenied", "redirect timed out", 503)

    with pytest.raises(ObjectMissing):
        backend.fetch(str(backend.reference_for(scope, "<Code>NoSuchBucket</Code>", b"1")))


def test_objects_that_may_not_be_deleted_are_returned_separately(
    backend: ObjectStoreBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = f"s3://bucket/task/d/r/t/-1/kept/{NAME}"
    denied = (
        b"<DeleteResult><Error><Key>task/d/r/t/-1/kept/" + NAME.encode() + b"</Key>"
        b"<Code>AccessDenied</Code><Message>locked</Message></Error></DeleteResult>"
    )
    gone = (
        b"<DeleteResult><Deleted><Key>task/d/r/t/-1/k/" + NAME.encode() + b"</Key></Deleted>"
        b"</DeleteResult>"
    )
    with serving(answer(200, denied), answer(200, gone), answer(200, denied)) as server:
        use(server, monkeypatch)

        failed = backend.remove([REFERENCE, kept])

    assert failed.keys() == {kept} and "permission denied" in failed[kept]


def test_half_a_pair_of_keys_is_an_error_that_names_the_missing_one(
    backend: ObjectStoreBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")

    error = refusal_of_put(backend)

    assert "credentials" in error.message and "AWS_SECRET_ACCESS_KEY" in error.hint


def test_the_address_in_a_message_may_hold_a_signature_and_is_left_out() -> None:
    error = GenericError("Generic error: GET https://a.blob.core/c/x?sig=secret odd\n\nDebug sig=s")

    assert reason(error) == "Generic error: GET … odd"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("Unable to open file /x#1: Read-only file system (os error 30)", "permission denied"),
        ("Unable to create dir /x: Permission denied (os error 13)", "permission denied"),
        ("Unable to copy data to file: No space left on device (os error 28)", "no space"),
    ],
)
def test_a_disk_error_is_explained(message: str, expected: str) -> None:
    assert expected in reason(GenericError(f"Generic LocalFileSystem error: {message}"))


def test_a_full_disk_leaves_no_half_object(tmp_path: Path) -> None:
    backend = ObjectStoreBackend(ObjectStore(url=f"file://{tmp_path}/o"))
    content = b"1" * 100_000
    reference = str(backend.reference_for(TASK, "k", content))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, before[1]))
    try:
        with pytest.raises(BackendFailed, match="no space left") as raised:
            backend.put(reference, TASK, "k", content)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

    assert reference in raised.value.message
    assert list(backend.list_objects()) == []


def test_a_file_in_place_of_the_directory_is_an_error_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "o").write_text("")
    backend = ObjectStoreBackend(ObjectStore(url=f"file://{tmp_path}/o"))
    reference = str(backend.reference_for(TASK, "k", b"1"))

    with pytest.raises(BackendFailed, match="File exists"):
        backend.put(reference, TASK, "k", b"1")


def test_a_directory_that_is_not_mounted_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    backend = ObjectStoreBackend(ObjectStore(url=f"file://{tmp_path}/o"))
    reference = str(backend.reference_for(TASK, "k", b"1"))

    with pytest.raises(BackendFailed, match="does not exist") as raised:
        backend.fetch(reference)

    assert not isinstance(raised.value, ObjectMissing)
    assert "does not exist" in backend.remove([reference])[reference]


def test_a_backend_without_url_is_an_error() -> None:
    with pytest.raises(InvalidSettings, match="object_store.url is empty"):
        ObjectStoreBackend(ObjectStore())


def test_the_error_without_obstore_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)

    with pytest.raises(MissingDependency) as raised:
        ObjectStoreBackend(ObjectStore(url="memory://"))

    assert "holdfast-state[objects]" in raised.value.hint


@pytest.mark.skipif(sys.version_info >= (3, 14), reason="Python has zstd itself")
def test_the_error_without_zstd_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "backports", None)

    with pytest.raises(MissingDependency) as raised:
        ObjectStoreBackend(ObjectStore(url="memory://", compression="zstd"))

    assert "holdfast-state[objects]" in raised.value.hint


def test_the_class_can_be_imported_without_obstore() -> None:
    script = (
        "import sys; sys.modules['obstore'] = None\n"
        "from holdfast.sdk.state import ObjectStoreBackend\n"
    )

    assert subprocess.run([sys.executable, "-c", script], timeout=30).returncode == 0


FORKING = """
import os, sys
from holdfast.errors import BackendFailed
from holdfast.sdk.state import ObjectStoreBackend, TaskScope
from holdfast.settings import ObjectStore

backend, task = ObjectStoreBackend(ObjectStore(url=sys.argv[1])), TaskScope("d", "r", "t")
reference = backend.reference_for(task, "k", b"1")
if sys.argv[2] == "used before":
    backend.put(reference, task, "k", b"1")
pid = os.fork()
if pid == 0:
    try:
        backend.put(reference, task, "k", b"1")
        print(backend.fetch(reference).decode(), flush=True)
    except BackendFailed as error:
        print(error.message, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
"""


@pytest.mark.parametrize(
    ("order", "expected"),
    [("used after", "1"), ("used before", "it was forked from a process that had already used it")],
)
def test_a_forked_process_works_or_raises_a_clear_error(
    order: str, expected: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-c", FORKING, f"file://{tmp_path}/o", order]

    said = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout

    assert said.strip().endswith(expected)
