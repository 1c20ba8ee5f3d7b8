"""Receiver of a webhook, with the responses that a test plans."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


class Receiver(ThreadingHTTPServer):
    """Records the requests to it."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.planned: list[int] = []
        """Statuses of the next responses; afterwards 204."""
        self.requests: list[dict[str, Any]] = []
        """The documents of all requests, whatever the response was."""
        self.headers: list[dict[str, str]] = []
        self.taken: list[dict[str, Any]] = []
        """The documents that got a 204."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/hooks/s3cret"


class _Request(BaseHTTPRequestHandler):
    server: Receiver

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.requests.append(document)
        self.server.headers.append(dict(self.headers))
        status = self.server.planned.pop(0) if self.server.planned else 204
        if status == 204:
            self.server.taken.append(document)
        self.send_response(status)
        if status in (301, 302, 307, 308):
            self.send_header("Location", "/elsewhere")
        self.end_headers()
        if status >= 400:
            self.wfile.write(b"no such\nhook")

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        pass


@contextmanager
def receiving() -> Iterator[Receiver]:
    with Receiver() as receiver:
        thread = Thread(target=receiver.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield receiver
        finally:
            receiver.shutdown()
            thread.join()
