"""Real S3 server over HTTP, in its own process."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.error import URLError
from urllib.request import Request, urlopen
from uuid import uuid4

from obstore.store import S3Store
from webserver import free_port


class ObjectServer:
    """S3 server on a loopback port. Each test creates its own buckets."""

    def __init__(self, port: int) -> None:
        self.endpoint = f"http://127.0.0.1:{port}"
        self.environment = {
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing-secret",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": self.endpoint,
        }
        """Environment of a worker that uses it."""

    def make_bucket(self) -> str:
        """Create an empty bucket, and return its URL."""
        name = f"bucket-{uuid4().hex[:12]}"
        self.request("PUT", f"/{name}")
        return f"s3://{name}"

    def overwrite(self, reference: str, content: bytes) -> None:
        """Change an object on the server."""
        store, path = self._opened(reference)
        store.put(path, content)

    def metadata(self, reference: str) -> dict[str, str]:
        """Return the server's metadata of an object."""
        store, path = self._opened(reference)
        return dict(store.get(path).attributes)

    def _opened(self, reference: str) -> tuple[S3Store, str]:
        bucket, _, path = reference.removeprefix("s3://").partition("/")
        keys = {name.lower(): value for name, value in self.environment.items()}
        return S3Store(bucket, config=keys, client_options={"allow_http": True}), path

    def request(self, method: str, path: str, body: bytes | None = None) -> bytes:
        """Send a plain request, without the code under test."""
        with urlopen(Request(self.endpoint + path, body, method=method), timeout=10) as answer:
            return bytes(answer.read())


@contextmanager
def object_server() -> Iterator[ObjectServer]:
    """Yield a server, which ends with the block."""
    port = free_port()
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    with subprocess.Popen(command, **quiet) as process:
        try:
            server = ObjectServer(port)
            _wait_until_it_answers(server, process)
            yield server
        finally:
            process.kill()


def _wait_until_it_answers(server: ObjectServer, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            server.request("GET", "/")
        except URLError:
            assert process.poll() is None, "the S3 server ended as soon as it was started"
            assert time.monotonic() < deadline, "the S3 server does not answer"
            time.sleep(0.1)
        else:
            return
