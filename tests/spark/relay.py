"""TCP port that forwards to a Unix socket, for drivers that only support TCP."""

from __future__ import annotations

import shutil
import socket
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def relay(path: str) -> Iterator[int]:
    """Yield a port of the loopback address whose connections go to the socket."""

    class Handler(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with socket.socket(socket.AF_UNIX) as other:
                other.connect(path)
                back = threading.Thread(target=_copy, args=(other, self.request))
                back.start()
                _copy(self.request, other)
                back.join()

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server.server_address[1]
        server.shutdown()


def _copy(source: socket.socket, target: socket.socket) -> None:
    with source.makefile("rb", 0) as reader, target.makefile("wb", 0) as writer:
        try:
            shutil.copyfileobj(reader, writer)
            target.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # one of the two has closed
