"""Invalid and malicious requests: a helpful 4xx, and no write."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from collections.abc import Callable
from typing import Any

import pytest
from talk import ADMIN, Answer, Served, answer_in, received

from holdfast.access.identity import TaskIdentity
from holdfast.server.http.protocol import LimitedProtocol


@pytest.fixture(scope="module")
def strict(make_served: Callable[..., Served]) -> Served:
    """Return a server with small limits."""
    return make_served(
        api__request_timeout="1s", api__max_body_bytes="65536", api__max_header_bytes="4096"
    )


@pytest.fixture
def attempt(strict: Served, request: pytest.FixtureRequest) -> TaskIdentity:
    return strict.new_attempt(str(request.node.name)[:200])


def head(served: Served, task: TaskIdentity, *lines: str, method: str = "PUT") -> bytes:
    """Return the head of a request for a key of the task, with more lines."""
    fields = [
        f"{method} /execution/store/ti/{task.scope.ti_id}/a HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {served.token(task)}",
        "Content-Type: application/json",
        *lines,
    ]
    return "\r\n".join([*fields, "", ""]).encode()


def raw(served: Served, data: bytes) -> Answer:
    return answer_in(served.send(data))


PATHS = [
    "../ti/{other}/a",
    "{ti}%2Fa",
    "{ti}%2F",
    "{ti}%252Fa",
    "{ti}%00/a",
    "{other}%2F..%2F{ti}/a",
    "{other}/../{ti}/a",
    "{other}/a",
    "{ti}/%00",
    "{ti}/a%00b",
    "{ti}/%0A",
    "{ti}/%FF",
    "{ti}/%C0%AF",
    "{ti}/%ED%A0%80",
    "{ti}/%zz",
    "{ti}/%",
    "{ti}/",
    "{ti}/" + "k" * 513,
    "nonsense/a",
    "%2e%2e/a",
    "",
    "/a",
]


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE"])
@pytest.mark.parametrize("path", PATHS)
def test_a_malicious_path_reaches_nothing(
    served: Served, task: TaskIdentity, path: str, method: str
) -> None:
    other = served.new_attempt("another")
    for scope in (task.scope, other.scope):
        served.put(scope, "a", '"secret"')
    tricky = path.format(ti=task.scope.ti_id, other=other.scope.ti_id)
    body = b'{"value": 1}'
    data = head(served, task, f"Content-Length: {len(body)}", "Connection: close", method=method)

    answer = raw(served, data.replace(f"{task.scope.ti_id}/a".encode(), tricky.encode()) + body)

    assert 400 <= answer.status < 500
    assert answer.reason in ("forbidden", "invalid", "not_found", "method_not_allowed")
    assert b"secret" not in answer.body
    assert served.entries(task.scope) == served.entries(other.scope) == {"a": '"secret"'}


def test_a_key_is_decoded_once_and_cannot_escape_its_path(
    served: Served, task: TaskIdentity
) -> None:
    other = served.new_attempt("another")
    place = f"/execution/store/ti/{task.scope.ti_id}"
    ways = ["%252F", "..%2F..%2Fetc%2Fpasswd", "..", f"../{other.scope.ti_id}/b"]

    for way in ways:
        served.ask("PUT", f"{place}/{way}", {"value": 1}, token=task)

    keys = ["%2F", "..", "../../etc/passwd", f"../{other.scope.ti_id}/b"]
    assert sorted(served.entries(task.scope)) == sorted(keys)
    assert "b" not in served.entries(other.scope)


@pytest.mark.parametrize(
    "path", ["//execution/store/ti/x/a", "/%65xecution/commands", "/EXECUTION/commands", "/x", "/"]
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_an_unknown_route_is_not_found(served: Served, path: str, method: str) -> None:
    for token in (None, ADMIN):
        answer = served.ask(method, path, token=token)

        assert answer.status in (401, 404)
        assert answer.reason in ("unauthorized", "not_found")


def test_the_response_to_an_unsupported_method_names_the_supported_ones(
    served: Served, task: TaskIdentity
) -> None:
    place = f"/execution/store/ti/{task.scope.ti_id}"

    answers = {
        served.ask("POST", f"{place}/a", {}, token=task).headers["allow"],
        served.ask("PATCH", f"{place}/a", {}, token=task).headers["allow"],
    }

    assert answers == {"DELETE, GET, PUT"}
    assert served.ask("PUT", place, {}, token=task).headers["allow"] == "DELETE"
    assert served.ask("PUT", "/execution/commands", token=task).headers["allow"] == "GET, POST"
    assert served.ask("POST", "/health").headers["allow"] == "GET"
    assert served.ask("BREW", "/health").reason in ("method_not_allowed", "bad_request")


@pytest.mark.parametrize(
    "kind", ["text/plain", "application/xml", "multipart/form-data", "json", ";"]
)
def test_a_body_of_another_type_is_refused(served: Served, task: TaskIdentity, kind: str) -> None:
    place = f"/execution/store/ti/{task.scope.ti_id}/a"

    put = served.ask("PUT", place, {"value": 1}, token=task, Content_Type=kind)
    post = served.ask("POST", "/execution/commands", {}, token=task, Content_Type=kind)

    assert [(put.status, put.reason), (post.status, post.reason)] == [
        (415, "wrong_content_type")
    ] * 2
    assert served.entries(task.scope) == {}


@pytest.mark.parametrize("kind", ["application/json; charset=utf-8", "Application/JSON"])
def test_a_json_content_type_may_have_parameters(
    served: Served, task: TaskIdentity, kind: str
) -> None:
    place = f"/execution/store/ti/{task.scope.ti_id}/a"

    answer = served.ask("PUT", place, {"value": 1}, token=task, Content_Type=kind)

    assert answer.status == 204


def test_a_body_of_100_mb_is_refused_at_once_by_its_length(
    served: Served, task: TaskIdentity
) -> None:
    began = time.monotonic()

    answer = served.ask(
        "PUT",
        f"/execution/store/ti/{task.scope.ti_id}/a",
        b'{"value": "' + b"x" * 100_000_000 + b'"}',
        token=task,
    )

    assert (answer.status, answer.reason) == (413, "request_too_large")
    assert time.monotonic() - began < 5
    assert served.entries(task.scope) == {}


def test_a_content_length_over_the_limit_is_refused_before_the_body(
    strict: Served, attempt: TaskIdentity
) -> None:
    answer = raw(strict, head(strict, attempt, "Content-Length: 100000000"))

    assert (answer.status, answer.reason) == (413, "request_too_large")
    assert answer.headers["connection"] == "close"


def test_a_body_without_length_is_refused_once_it_is_too_large(
    strict: Served, attempt: TaskIdentity
) -> None:
    chunk = b"4000\r\n" + b"x" * 0x4000 + b"\r\n"
    data = head(strict, attempt, "Transfer-Encoding: chunked") + chunk * 20 + b"0\r\n\r\n"

    answer = raw(strict, data)

    assert (answer.status, answer.reason) == (413, "request_too_large")
    assert strict.entries(attempt.scope) == {}


def test_a_body_without_length_in_one_chunk_is_counted_too(
    strict: Served, attempt: TaskIdentity
) -> None:
    body = b'{"value": "' + b"x" * 0x11000 + b'"}'
    chunk = b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body)

    answer = raw(strict, head(strict, attempt, "Transfer-Encoding: chunked") + chunk)

    assert (answer.status, answer.reason) == (413, "request_too_large")
    assert strict.entries(attempt.scope) == {}


@pytest.mark.parametrize("lines", ["Content-Length: 1000", "Transfer-Encoding: chunked"])
@pytest.mark.parametrize("path", ["/health/live", "/nothing"])
def test_a_body_is_only_read_with_a_token(strict: Served, path: str, lines: str) -> None:
    start = f"POST {path} HTTP/1.1\r\nHost: x\r\n{lines}\r\n\r\n2\r\n{{}}\r\n"

    answer = raw(strict, start.encode())

    assert (answer.status, answer.reason) == (413, "request_too_large")


@pytest.mark.parametrize("trailer", [b"a: b\r\n" * 2_000, b"a: " + b"b" * 12_000])
def test_bytes_after_a_body_are_bounded(
    strict: Served, attempt: TaskIdentity, trailer: bytes
) -> None:
    lines = ("Transfer-Encoding: chunked", "Expect: 100-continue")
    with strict.connect() as connection:
        connection.sendall(head(strict, attempt, *lines))
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"0\r\n" + trailer)

        answer = answer_in(received(connection))

    assert (answer.status, answer.reason) == (431, "head_too_large")


def test_a_token_in_a_trailer_is_ignored(strict: Served, attempt: TaskIdentity) -> None:
    whole = head(strict, attempt, "Transfer-Encoding: chunked", "Connection: close")
    [line] = [line for line in whole.splitlines(keepends=True) if line.startswith(b"Authorization")]
    body = b'c\r\n{"value": 1}\r\n0\r\n' + line + b"\r\n"

    answer = raw(strict, whole.replace(line, b"") + body)

    assert (answer.status, answer.reason) == (401, "unauthorized")
    assert strict.entries(attempt.scope) == {}


def test_a_chunked_body_within_the_limit_is_accepted(strict: Served, attempt: TaskIdentity) -> None:
    body = b'5\r\n{"val\r\n7\r\nue": 1}\r\n0\r\n\r\n'
    lines = ("Transfer-Encoding: chunked", "Connection: close")

    answer = raw(strict, head(strict, attempt, *lines) + body)

    assert answer.status == 204
    assert strict.entries(attempt.scope) == {"a": "1"}


def test_expect_100_continue_is_supported(strict: Served, attempt: TaskIdentity) -> None:
    lines = ("Expect: 100-continue", "Content-Length: 12", "Connection: close")
    with strict.connect() as connection:
        connection.sendall(head(strict, attempt, *lines))
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b'{"value": 1}')

        assert answer_in(received(connection)).status == 204


def test_a_body_that_does_not_arrive_in_time_is_abandoned(
    strict: Served, attempt: TaskIdentity
) -> None:
    began = time.monotonic()

    answer = raw(strict, head(strict, attempt, "Content-Length: 12") + b'{"value')

    assert (answer.status, answer.reason) == (408, "request_too_slow")
    assert 0.8 < time.monotonic() - began < 8
    assert strict.entries(attempt.scope) == {}


def trickle(connection: socket.socket, data: bytes, pause: float) -> bytes:
    """Send byte by byte until the server responds, and return the response."""
    connection.settimeout(pause)
    heard = b""
    for byte in data:
        try:
            connection.sendall(bytes([byte]))
            while part := connection.recv(65536):
                heard += part
        except TimeoutError:
            continue
        except OSError:
            pass
        return heard
    raise AssertionError("the server has all the time in the world")


def test_a_head_that_trickles_in_times_out(strict: Served, attempt: TaskIdentity) -> None:
    with strict.connect() as connection:
        answer = answer_in(trickle(connection, head(strict, attempt), 0.1))

    assert (answer.status, answer.reason) == (408, "request_too_slow")


def test_a_body_that_trickles_in_times_out(strict: Served, attempt: TaskIdentity) -> None:
    with strict.connect() as connection:
        connection.sendall(head(strict, attempt, "Content-Length: 1000"))
        answer = answer_in(trickle(connection, b"x" * 1000, 0.1))

    assert (answer.status, answer.reason) == (408, "request_too_slow")
    assert strict.entries(attempt.scope) == {}


def test_an_idle_connection_is_closed(strict: Served) -> None:
    with strict.connect() as connection:
        assert received(connection) == b""


def test_an_empty_line_after_a_request_does_not_keep_the_connection_open(strict: Served) -> None:
    with strict.connect(5) as connection:
        connection.sendall(b"GET /health/live HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK")
        connection.sendall(b"\r\n")

        answer = answer_in(received(connection))

    assert (answer.status, answer.reason) == (408, "request_too_slow")


def unread(served: Served, *lines: str, count: int) -> socket.socket:
    """Return a connection with many responses that are not read."""
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
    host, _, port = served.address.partition(":")
    connection.connect((host, int(port)))
    asked = "\r\n".join(["GET /openapi.json HTTP/1.1", "Host: x", *lines, "", ""])
    connection.sendall(asked.encode() * count)
    return connection


def wait_until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 8
    while not condition():
        assert time.monotonic() < end, "it has not come to that"
        time.sleep(0.02)


@pytest.mark.parametrize(("lines", "count"), [((), 60), (("Connection: close",), 1)])
def test_a_client_that_does_not_read_is_disconnected(
    strict: Served,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
    lines: tuple[str, ...],
    count: int,
) -> None:
    async def much() -> bytes:
        return b" " * 8_000_000

    monkeypatch.setattr(strict.server._server.config.app, "openapi_json", much)
    deaf = [unread(strict, *lines, count=count) for _ in range(3)]
    clients = {connection.getsockname() for connection in deaf}

    def connected() -> set[object]:
        kept = list(strict.server._server.server_state.connections)
        return clients & {one.client for one in kept if isinstance(one, LimitedProtocol)}

    wait_until(lambda: connected() == clients)
    wait_until(lambda: not connected())
    for connection in deaf:
        connection.close()

    assert "Traceback" not in caplog.text


def test_slow_clients_do_not_block_others(strict: Served, attempt: TaskIdentity) -> None:
    slow = [strict.connect() for _ in range(50)]
    for connection in slow:
        connection.sendall(head(strict, attempt, "Content-Length: 1000") + b"x")

    began = time.monotonic()
    answer = strict.ask("GET", f"/execution/store/ti/{attempt.scope.ti_id}/a", token=attempt)
    took = time.monotonic() - began
    for connection in slow:
        connection.close()

    assert (answer.status, took < 0.9) == (404, True)


@pytest.mark.parametrize("size", [5_000, 1_000_000])
def test_a_head_that_is_too_large_is_refused(
    strict: Served, attempt: TaskIdentity, size: int
) -> None:
    answer = raw(strict, head(strict, attempt, "X-Large: " + "x" * size, method="GET"))

    assert (answer.status, answer.reason) == (431, "head_too_large")


def test_a_path_that_is_too_long_is_refused(strict: Served, attempt: TaskIdentity) -> None:
    data = head(strict, attempt, method="GET").replace(b"/a HTTP", b"/" + b"a" * 9_000 + b" HTTP")

    answer = raw(strict, data)

    assert (answer.status, answer.reason) == (431, "head_too_large")


def test_a_head_that_never_ends_is_refused(strict: Served) -> None:
    with strict.connect() as connection:
        connection.sendall(b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 2_000)

        answer = answer_in(received(connection))

    assert (answer.status, answer.reason) == (431, "head_too_large")


@pytest.mark.parametrize(
    "data",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"GET\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"POST / HTTP/1.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"GET / HTTP/1.1\r\nBad Name: x\r\n\r\n",
        b"CONNECT host:80 HTTP/1.1\r\nHost: x\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\0" * 100,
    ],
)
def test_bytes_that_are_not_http_get_an_error(strict: Served, data: bytes) -> None:
    answer = raw(strict, data)

    assert (answer.status, answer.reason) == (400, "bad_request")


def test_an_invalid_chunk_ends_the_request(strict: Served, attempt: TaskIdentity) -> None:
    data = head(strict, attempt, "Transfer-Encoding: chunked") + b'5\r\n{"val\r\nzz\r\n'

    answer = raw(strict, data)

    assert (answer.status, answer.reason) == (400, "bad_request")
    assert strict.entries(attempt.scope) == {}


def test_invalid_bytes_after_a_request_do_not_affect_its_response(
    strict: Served, attempt: TaskIdentity
) -> None:
    strict.put(attempt.scope, "a", "1")

    answer = raw(strict, head(strict, attempt, method="GET") + b"nonsense\r\n\r\n")

    assert answer.status == 200
    assert answer.body.startswith(b'{"value":1}')


def test_pipelined_requests_get_their_responses_in_order(
    strict: Served, attempt: TaskIdentity
) -> None:
    strict.put(attempt.scope, "a", "1")
    get = head(strict, attempt, method="GET")
    last = head(strict, attempt, "Connection: close", method="GET")

    data = strict.send(get * 5 + last)

    assert data.count(b"HTTP/1.1 200 OK") == 6
    assert data.count(b'{"value":1}') == 6


def test_a_client_that_disconnects_during_a_request_does_no_harm(
    strict: Served, attempt: TaskIdentity, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(5):
        with strict.connect() as connection:
            connection.sendall(head(strict, attempt, "Content-Length: 12") + b'{"val')

    assert strict.ask("GET", "/health").status == 200
    assert strict.entries(attempt.scope) == {}
    assert "Traceback" not in caplog.text


def test_a_tls_client_on_plain_http_is_disconnected(strict: Served) -> None:
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(strict.address, context=context, timeout=10)

    with pytest.raises(ssl.SSLError):
        connection.request("GET", "/health")


def test_a_websocket_upgrade_is_refused(served: Served) -> None:
    answer = served.ask(
        "GET", "/health", Connection="Upgrade", Upgrade="websocket", Sec_WebSocket_Version="13"
    )

    assert answer.status == 200


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [("POST", "/execution/commands", {"command": "Now"}), ("GET", "/api/v2/dags", None)],
)
def test_an_internal_error_is_reported_without_details(
    served: Served,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    method: str,
    path: str,
    body: Any,
) -> None:
    async def fail(command: object) -> None:
        raise RuntimeError("the password is swordfish")

    monkeypatch.setattr(served.store, "aexecute", fail)

    answer = served.ask(method, path, body, token=ADMIN)

    assert (answer.status, answer.reason) == (500, "error")
    assert b"swordfish" not in answer.body
    assert answer.headers["x-request-id"].encode() in answer.body
    assert "swordfish" in caplog.text
    assert answer.headers["x-request-id"] in caplog.text


def test_a_path_cannot_inject_lines_into_the_log(
    served: Served, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(text: str) -> None:
        raise RuntimeError

    monkeypatch.setattr(served.server.tokens, "verify", fail)

    served.ask("GET", "/api/v2/dags/a%0Ainvented", token="x")

    [line] = [record.getMessage() for record in caplog.records if "invented" in record.getMessage()]
    assert line.endswith("GET /api/v2/dags/a%0Ainvented")
