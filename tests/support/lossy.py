"""Proxy that loses requests on their way to the server, or answers on their way back."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from threading import Thread
from typing import BinaryIO
from urllib.parse import urlsplit

KEPT = ""
REQUEST = "request"
ANSWER = "answer"
UNAVAILABLE = "unavailable"
"""The server does the work, and the answer is that it is not available."""
_UNAVAILABLE = b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n"


class LossyProxy:
    """Proxy in front of the server at a URL. It closes the connection of a lost message."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._server = (parts.hostname or "", parts.port or 0)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._threads = [Thread(target=self._accept)]
        self._clients: list[socket.socket] = []
        self.losses: list[str] = []
        """Losses of the next exchanges; after them, nothing is lost."""
        self.about = b""
        """A part of the first line of the requests that may be lost."""
        self._threads[0].start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listening.getsockname()[1]}"

    def close(self) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        for client in self._clients:
            with suppress(OSError):
                client.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        self._listening.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            self._clients.append(client)
            self._threads.append(Thread(target=self._pass_on, args=(client,)))
            self._threads[-1].start()

    def _pass_on(self, client: socket.socket) -> None:
        with (
            suppress(OSError),
            client,
            socket.create_connection(self._server) as server,
            client.makefile("rb") as requests,
            server.makefile("rb") as answers,
        ):
            while request := message(requests):
                is_about = self.about in request.partition(b"\r\n")[0]
                loss = self.losses.pop(0) if self.losses and is_about else KEPT
                if loss == REQUEST:
                    return
                server.sendall(request)
                answer = message(answers, has_body=not request.startswith(b"HEAD "))
                if loss == ANSWER:
                    return
                client.sendall(_UNAVAILABLE if loss == UNAVAILABLE else answer)


def message(stream: BinaryIO, *, has_body: bool = True) -> bytes:
    """Return the next request or answer, empty at the end."""
    head = b""
    size = 0
    while (line := stream.readline()) not in (b"\r\n", b""):
        head += line
        if line.lower().startswith(b"content-length:"):
            size = int(line.partition(b":")[2])
    return head + line + (stream.read(size) if has_body else b"")


@contextmanager
def losing(url: str) -> Iterator[LossyProxy]:
    proxy = LossyProxy(url)
    yield proxy
    proxy.close()
