"""Load balancer: one address in front of several servers."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from threading import Thread


@contextmanager
def alternating(ports: list[int]) -> Iterator[int]:
    """Yield the port that forwards connections to each of these in turn, and skips those that do
    not answer."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        Thread(target=_accept, args=(listener, ports), daemon=True).start()
        yield listener.getsockname()[1]


def _accept(listener: socket.socket, ports: list[int]) -> None:
    with suppress(OSError):  # closed at the end of the test
        for turn in count():
            client, _ = listener.accept()
            for step in range(len(ports)):
                with suppress(OSError):
                    port = ports[(turn + step) % len(ports)]
                    server = socket.create_connection(("127.0.0.1", port))
                    for pair in ((client, server), (server, client)):
                        Thread(target=_copy, args=pair, daemon=True).start()
                    break
            else:
                client.close()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with source, suppress(OSError):
        while data := source.recv(65536):
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)
