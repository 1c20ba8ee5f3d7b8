"""Web server with scripted responses."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path
from threading import Thread
from typing import BinaryIO, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


class Answer(NamedTuple):
    """Response to a request, and what happens to the connection afterwards."""

    data: bytes = b""
    close: bool = False
    delay: float = 0.0
    at_once: bool = False
    """Whether it is sent before the body of the request was read."""


LOST = Answer(close=True)
"""The request is received, and no response is sent."""


def answer(
    status: int = 200,
    body: bytes = b"{}",
    *,
    close: bool = False,
    delay: float = 0.0,
    **headers: str,
) -> Answer:
    """Return a response with a JSON body; an underscore in the name of a header stands for a
    hyphen."""
    given = {"content_type": "application/json", "content_length": str(len(body))} | headers
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in given.items())
    return Answer(f"HTTP/1.1 {status} Some\r\n{lines}\r\n".encode() + body, close, delay)


class Request(NamedTuple):
    """Request as it was received, and its connection."""

    connection: int
    line: str
    headers: dict[str, str]
    body: bytes


class WebServer:
    """Web server on its own port, until it is closed. The last of its responses is repeated."""

    def __init__(
        self, *answers: Answer, port: int = 0, certificate: ssl.SSLContext | None = None
    ) -> None:
        self.answers = list(answers)
        self.requests: list[Request] = []
        self._listening = socket.create_server(("127.0.0.1", port))
        self.port = int(self._listening.getsockname()[1])
        self._certificate = certificate
        self._connections: list[socket.socket] = []
        self._threads = [Thread(target=self._accept)]
        self._threads[0].start()

    @property
    def url(self) -> str:
        scheme = "https" if self._certificate else "http"
        return f"{scheme}://127.0.0.1:{self.port}"

    def connections(self) -> int:
        """Return the number of connections so far."""
        return len(self._connections)

    def close_connections(self) -> None:
        """Close idle connections, as a server does."""
        for connection in self._connections:
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def say(self, data: bytes) -> None:
        """Send unsolicited bytes over the newest connection."""
        self._connections[-1].sendall(data)

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self.close_connections()
        for thread in self._threads:
            thread.join()
        for each in (self._listening, *self._connections):
            each.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listening.accept()
            except OSError:
                return
            try:
                if self._certificate:
                    connection = self._certificate.wrap_socket(connection, server_side=True)
            except OSError:
                connection.close()
                continue
            self._connections.append(connection)
            thread = Thread(target=self._serve, args=(connection, len(self._connections)))
            self._threads.append(thread)
            thread.start()

    def _serve(self, connection: socket.socket, number: int) -> None:
        with suppress(OSError), connection.makefile("rb") as stream:
            while (line := stream.readline()) and self._reply(connection, number, line, stream):
                pass
        connection.close()

    def _reply(self, connection: socket.socket, number: int, line: bytes, stream: BinaryIO) -> bool:
        headers = {}
        while header := stream.readline().strip():
            name, _, value = header.decode().partition(": ")
            headers[name.lower()] = value
        reply = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        size = int(headers.get("content-length", 0))
        body = b"" if reply.at_once else stream.read(size)
        self.requests.append(Request(number, line.decode().strip(), headers, body))
        time.sleep(reply.delay)
        connection.sendall(reply.data)
        return not reply.close


@contextmanager
def serving(
    *answers: Answer, port: int = 0, certificate: ssl.SSLContext | None = None
) -> Iterator[WebServer]:
    """Yield a server, which ends with the block."""
    server = WebServer(*answers, port=port, certificate=certificate)
    try:
        yield server
    finally:
        server.close()


def free_port() -> int:
    """Return a port without listener."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        return int(taken.getsockname()[1])


def make_certificate(directory: Path) -> tuple[Path, Path]:
    """Create a self-signed certificate for 127.0.0.1, and its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "holdfast test")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(hours=1))
        .not_valid_after(now + timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    files = directory / "certificate.pem", directory / "key.pem"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return files
