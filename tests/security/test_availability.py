"""Availability under connections without a token, for clients and health checks."""

from __future__ import annotations

import http.client
import logging
import re
import resource
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from holdfast.access.identity import UserIdentity
from holdfast.model.role import Role
from holdfast.server.embedded import EmbeddedServer
from holdfast.server.http import middleware
from holdfast.server.http.limits import Bodies
from holdfast.settings import load
from holdfast.testing.memory_store import MemoryStore

PATIENCE = 20.0
CHUNKED = b"POST /health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedServer]:
    settings = load(tmp_path, {"HOLDFAST__API__ACCESS_LOG": "false"})
    server = EmbeddedServer(MemoryStore(), settings)
    yield server
    server.close()


def place(url: str) -> tuple[str, int]:
    host, _, port = url.removeprefix("http://").partition(":")
    return host, int(port)


def status(url: str, path: str, method: str = "GET") -> int:
    connection = http.client.HTTPConnection(*place(url), timeout=PATIENCE)
    connection.request(method, path)
    found = connection.getresponse()
    found.read()
    connection.close()
    return found.status


@contextmanager
def connections(url: str, count: int, sent: bytes = b"") -> Iterator[list[socket.socket]]:
    with ExitStack() as stack:
        opened = []
        for _ in range(count):
            connection = stack.enter_context(socket.create_connection(place(url), PATIENCE))
            connection.sendall(sent)
            opened.append(connection)
        yield opened


def test_a_chunked_body_on_a_route_without_body_is_refused_at_once(server: EmbeddedServer) -> None:
    with connections(server.url, 1, CHUNKED) as [connection]:
        assert connection.recv(100).startswith(b"HTTP/1.1 413 ")


def test_requests_with_a_missing_body_do_not_block_others(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "MOST_UNDER_WAY", 2)
    token = server.tokens.issue(UserIdentity("ann", Role.VIEWER))
    lines = ("POST /execution/commands HTTP/1.1", "Host: x", f"Authorization: Bearer {token}")
    slow = "\r\n".join([*lines, "Content-Length: 10", "Expect: 100-continue", "", ""]).encode()

    with connections(server.url, 3, slow) as waiting:
        assert all(one.recv(100).startswith(b"HTTP/1.1 100 ") for one in waiting)
        assert status(server.url, "/health") == 200


def test_partly_received_bodies_are_bounded_over_all_connections(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    bodies = Bodies(200_000)
    monkeypatch.setattr(middleware, "Bodies", lambda most: bodies)
    settings = load(tmp_path, {"HOLDFAST__API__MAX_BODY_BYTES": "200000"})
    server = EmbeddedServer(MemoryStore(), settings)
    token = server.tokens.issue(UserIdentity("ann", Role.VIEWER))
    lines = ("POST /execution/commands HTTP/1.1", "Host: x", f"Authorization: Bearer {token}")

    def request(sent: bytes, missing: int) -> bytes:
        length = f"Content-Length: {len(sent) + missing}"
        return "\r\n".join([*lines, length, "", ""]).encode() + sent

    now = b'{"command":"Now"}'
    large = now + b" " * 190_000
    with caplog.at_level(logging.WARNING), closing(server):
        end = time.monotonic() + PATIENCE
        with connections(server.url, 1, request(large, 1)):
            while bodies._bytes < 120_000:
                assert time.monotonic() < end
            with connections(server.url, 1, request(large, 1)) as [second]:
                refused = second.recv(1000)
            with connections(server.url, 1, request(now, 0)) as [small]:
                assert small.recv(100).startswith(b"HTTP/1.1 200 ")
            assert status(server.url, "/health/live") == 200
        while not answered(server.url, request(large, 0)).startswith(b"HTTP/1.1 200 "):
            assert time.monotonic() < end

    assert refused.startswith(b"HTTP/1.1 503 ")
    assert b"retry-after: " in refused
    assert "request bodies in memory have reached 200,000 bytes: more are refused" in caplog.text


def answered(url: str, request: bytes) -> bytes:
    with connections(url, 1, request) as [connection]:
        return connection.recv(100)


def test_unread_responses_do_not_block_others(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(middleware, "MOST_UNDER_WAY", 1)
    many = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n" * 60

    with socket.socket() as unread:
        unread.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        unread.connect(place(server.url))
        unread.sendall(many)
        end = time.monotonic() + PATIENCE  # of the 30 s that a client has to read
        while (found := status(server.url, "/health")) == 503 and time.monotonic() < end:
            time.sleep(0.05)

    assert found == 200


@pytest.mark.full
@pytest.mark.parametrize("path", ["/metrics", "/openapi.json", "/health/live"])
def test_pipelined_requests_do_not_keep_a_new_connection_waiting(
    server: EmbeddedServer, path: str
) -> None:
    status(server.url, path)  # some are created for the first request
    many = f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 100
    state = server._server.server_state

    with connections(server.url, 200, many):
        before = state.total_requests
        assert status(server.url, "/health/live") == 200
        answered_first = state.total_requests - before

    assert answered_first < 2000


def test_pipelined_requests_are_answered_in_order(server: EmbeddedServer) -> None:
    paths = [f"/health/live?{number:0{number}}" for number in range(1, 100)]
    sent = "".join(f"GET {path} HTTP/1.1\r\nHost: x\r\n\r\n" for path in paths)
    missing = "GET /nowhere HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"

    with connections(server.url, 1, f"{sent}{missing}".encode()) as [connection]:
        answers = b"".join(iter(lambda: connection.recv(100_000), b""))

    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"200"] * 99 + [b"404"]


def test_liveness_is_answered_under_any_load(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(middleware, "MOST_UNDER_WAY", 0)

    with caplog.at_level(logging.WARNING):
        assert status(server.url, "/health") == 503

    assert status(server.url, "/health/live") == 200
    assert "requests are in progress: more are refused" in caplog.text


@contextmanager
def server_with_files(soft: int, hard: int, home: Path) -> Iterator[tuple[int, str]]:
    """Yield a server with a limit of open files: its process and its address."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    with (home / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", "server", "--port", "0"],
            cwd=home,
            stdout=subprocess.PIPE,
            stderr=log,
            preexec_fn=limit,
            text=True,
        )
    assert process.stdout is not None
    try:
        yield process.pid, process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


@pytest.mark.full
def test_idle_connections_are_closed_before_file_descriptors_run_out(tmp_path: Path) -> None:
    with server_with_files(300, 400, tmp_path) as (pid, url):
        limits = Path(f"/proc/{pid}/limits").read_text()
        with connections(url, 450):
            statuses = [status(url, path) for path in ("/health", "/health/live")]

    assert [line.split()[3:5] for line in limits.splitlines() if "open files" in line] == [
        ["400", "400"]
    ]
    assert statuses == [200, 200]
    assert "200 connections are open" in (tmp_path / "log").read_text()


def test_the_connection_of_a_running_request_is_not_closed(
    server: EmbeddedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(server._server.config.app.state.connections, "most", 1)
    token = server.tokens.issue(UserIdentity("ann", Role.VIEWER))
    body = b'{"command":"Now"}'
    lines = ("POST /execution/commands HTTP/1.1", "Host: x", f"Authorization: Bearer {token}")
    head = [*lines, f"Content-Length: {len(body)}", "Expect: 100-continue", "", ""]

    with connections(server.url, 1, "\r\n".join(head).encode()) as [begun]:
        assert begun.recv(100).startswith(b"HTTP/1.1 100 ")
        assert status(server.url, "/health/live") == 503
        begun.sendall(body)
        assert begun.recv(100).startswith(b"HTTP/1.1 200 ")
