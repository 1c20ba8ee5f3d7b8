"""HTTP requests with lost connections, busy servers and forks."""

from __future__ import annotations

import os
import pickle
import socket
import ssl
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from email.utils import formatdate
from pathlib import Path
from threading import Thread, Timer

import pytest
from webserver import LOST, Answer, WebServer, answer, free_port, make_certificate, serving

from holdfast.portable import transport as module
from holdfast.portable.transport import (
    InvalidAddress,
    InvalidToken,
    Response,
    Transport,
    Unreachable,
)

TOKEN = "abc.DEF-ghi_123"
Open = Callable[..., Transport]


@pytest.fixture
def connect() -> Iterator[Open]:
    opened: list[Transport] = []

    def connect(url: str, token: str = TOKEN, **options: float) -> Transport:
        opened.append(Transport(url, token, **options))
        return opened[-1]

    yield connect
    for each in opened:
        each.close()


def get(transport: Transport) -> Response:
    return transport.request("GET", "/thing")


def put(transport: Transport) -> Response:
    return transport.request("PUT", "/thing", b"{}", once=True)


def test_a_request_has_method_path_headers_and_body(connect: Open) -> None:
    with serving(answer(201, b'"done"', server="x")) as server:
        response = connect(f"{server.url}/base/").request(
            "PUT", "/a%2Fb?x=1", b'{"a": 1}', {"Content-Type": "application/json"}
        )

    [request] = server.requests
    assert request.line == "PUT /base/a%2Fb?x=1 HTTP/1.1"
    assert request.headers == {
        "host": f"127.0.0.1:{server.port}",
        "authorization": f"Bearer {TOKEN}",
        "content-type": "application/json",
        "content-length": "8",
    }
    assert request.body == b'{"a": 1}'
    assert (response.status, response.body, response.headers["server"]) == (201, b'"done"', "x")


def test_head_and_body_of_a_request_are_sent_together(connect: Open) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        asking = Thread(target=put, args=(connect(url),))
        asking.start()
        connection, _ = listening.accept()
        received = connection.recv(65536)
        connection.sendall(answer().data)
        asking.join()
        connection.close()

    assert received.startswith(b"PUT") and received.endswith(b"\r\n\r\n{}")


def test_a_connection_is_reused(connect: Open) -> None:
    with serving(answer()) as server:
        transport = connect(server.url)
        for _ in range(5):
            get(transport)

        assert server.connections() == 1


@pytest.mark.parametrize(
    "reply",
    [answer(connection="close"), Answer(b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\n{}")],
)
def test_a_connection_is_closed_if_the_server_says_so(connect: Open, reply: Answer) -> None:
    with serving(reply) as server:
        transport = connect(server.url)
        get(transport)
        get(transport)

        assert server.connections() == 2


def test_a_connection_that_was_closed_while_idle_is_replaced(connect: Open) -> None:
    with serving(answer()) as server:
        transport = connect(server.url)
        get(transport)
        server.close_connections()

        assert get(transport).status == 200


def test_a_connection_that_closes_as_it_is_used_again_is_replaced(connect: Open) -> None:
    with serving(answer(), LOST, answer()) as server:
        transport = connect(server.url)
        get(transport)

        assert get(transport).status == 200
        assert [request.connection for request in server.requests] == [1, 1, 2]


def test_unsolicited_bytes_are_not_taken_for_the_response(connect: Open) -> None:
    with serving(answer(), answer(body=b'"right"')) as server:
        transport = connect(server.url)
        get(transport)
        server.say(answer(408, b'"wrong"').data)
        time.sleep(0.05)

        assert get(transport).body == b'"right"'


def test_bytes_after_a_response_are_not_taken_for_the_next_one(connect: Open) -> None:
    twice = Answer(answer().data + answer(body=b'"wrong"').data)
    with serving(twice, answer(body=b'"right"')) as server:
        transport = connect(server.url)
        get(transport)

        assert get(transport).body == b'"right"'


@pytest.mark.parametrize(
    "reply",
    [
        Answer(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"),
        Answer(b"HTTP/1.1 200\r\ncontent-length:5\r\n\r\nhello"),
        Answer(b"HTTP/1.1 200 OK\r\n\r\nhello", close=True),
        Answer(
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            b"2;note=1\r\nhe\r\n3\r\nllo\r\n0\r\nTrailer: 1\r\n\r\n"
        ),
        Answer(
            b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 100 Continue\r\n\r\n"
            b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
        ),
    ],
    ids=["length", "no phrase", "until the end", "chunked", "early hints"],
)
def test_a_body_is_read_however_it_is_sent(connect: Open, reply: Answer) -> None:
    with serving(reply) as server:
        assert get(connect(server.url)).body == b"hello"


def test_an_answer_without_body_is_read(connect: Open) -> None:
    with serving(Answer(b"HTTP/1.1 204 No Content\r\n\r\n")) as server:
        transport = connect(server.url)
        get(transport)

        assert get(transport) == Response(204, {}, b"")
        assert server.connections() == 1


def test_large_bodies_are_sent_and_received(connect: Open) -> None:
    large = os.urandom(3_000_000)
    with serving(answer(body=large[::-1])) as server:
        response = connect(server.url).request("PUT", "/", large)

    assert server.requests[0].body == large
    assert response.body == large[::-1]


def test_the_response_to_a_body_refused_unread_is_returned(connect: Open) -> None:
    refused = Answer(answer(413, b'"too large"').data, close=True, at_once=True)
    with serving(refused) as server:
        response = connect(server.url).request("PUT", "/", bytes(30_000_000))

    assert (response.status, response.body) == (413, b'"too large"')


@pytest.mark.parametrize("status", [408, 429, 502, 503, 504])
def test_a_request_to_a_busy_server_is_retried(connect: Open, status: int) -> None:
    busy = answer(status, b"<html>", content_type="text/html")
    with serving(busy, busy, answer(body=b'"done"')) as server:
        response = put(connect(server.url, retry_window=10))

    assert response.body == b'"done"'
    assert len(server.requests) == 3


def test_the_last_response_of_a_busy_server_is_returned(connect: Open) -> None:
    with serving(answer(503, b'"busy"')) as server:
        response = put(connect(server.url, retry_window=0.3))

    assert (response.status, response.body) == (503, b'"busy"')
    assert len(server.requests) > 2


def test_without_a_retry_window_nothing_is_retried(connect: Open) -> None:
    with serving(answer(503)) as server:
        assert put(connect(server.url)).status == 503
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 422, 500, 501])
def test_a_permanent_error_is_not_retried(connect: Open, status: int) -> None:
    with serving(answer(status)) as server:
        assert put(connect(server.url, retry_window=10)).status == status
    assert len(server.requests) == 1


def test_a_backend_that_failed_is_not_a_proxy_without_server(connect: Open) -> None:
    with serving(answer(502, b'{"detail": {"reason": "backend_failed"}}')) as server:
        assert put(connect(server.url, retry_window=10)).status == 502
    assert len(server.requests) == 1


def test_retry_after_may_be_a_number_of_seconds(connect: Open) -> None:
    with serving(answer(429, retry_after="1", retry_after_ms="500"), answer()) as server:
        began = time.monotonic()
        put(connect(server.url, retry_window=10))

    assert 0.5 <= time.monotonic() - began < 0.9


def test_retry_after_may_be_a_date(connect: Open) -> None:
    until = formatdate(time.time() + 2, usegmt=True)
    with serving(answer(503, retry_after=until), answer()) as server:
        began = time.monotonic()
        put(connect(server.url, retry_window=10))

    assert 0.9 <= time.monotonic() - began < 4


def test_a_wait_longer_than_the_retry_window_is_not_started(connect: Open) -> None:
    with serving(answer(429, retry_after="60")) as server:
        began = time.monotonic()
        assert put(connect(server.url, retry_window=5)).status == 429

    assert time.monotonic() - began < 1


def test_a_request_waits_for_a_server_that_is_not_running_yet(connect: Open) -> None:
    port = free_port()
    started: list[WebServer] = []
    timer = Timer(0.3, lambda: started.append(WebServer(answer(), port=port)))
    timer.start()

    response = put(connect(f"http://127.0.0.1:{port}", retry_window=10))

    timer.join()
    started[0].close()
    assert response.status == 200


def test_the_error_for_an_unavailable_server_names_it(connect: Open) -> None:
    url = f"http://127.0.0.1:{free_port()}"

    with pytest.raises(Unreachable) as caught:
        put(connect(url, retry_window=0.2))

    assert str(caught.value) == f"{url} does not answer: Connection refused, after 0.2 s of retries"


def test_the_error_for_an_unknown_host_names_it(connect: Open) -> None:
    with pytest.raises(Unreachable, match="http://nowhere.invalid does not answer: .*[nN]ame"):
        get(connect("http://nowhere.invalid"))


def test_the_error_for_a_slow_server_names_it(connect: Open) -> None:
    with serving(answer(delay=0.5)) as server, pytest.raises(Unreachable) as caught:
        get(connect(server.url, timeout=0.1))

    assert str(caught.value) == f"{server.url} does not answer within 0.1 s"


def test_a_response_that_trickles_in_times_out(connect: Open) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def drip() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                with suppress(OSError):
                    for _ in range(1000):
                        connection.sendall(b".")
                        time.sleep(0.02)

        dripping = Thread(target=drip)
        dripping.start()
        url = f"http://127.0.0.1:{listening.getsockname()[1]}"
        with pytest.raises(Unreachable, match="does not answer within 0.2 s"):
            get(connect(url, timeout=0.2))
        dripping.join()


def test_a_truncated_response_is_retried(connect: Open) -> None:
    half = Answer(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf", close=True)
    with serving(half, answer(body=b'"whole"')) as server:
        assert get(connect(server.url, retry_window=10)).body == b'"whole"'


@pytest.mark.parametrize(
    "reply",
    [
        Answer(b"SSH-2.0-OpenSSH_9.6\r\n"),
        Answer(b"HTTP/2 200\r\n\r\n"),
        Answer(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
        Answer(b"HTTP/1.1 200 OK\r\n" + b"a: b\r\n" * 20_000),
    ],
    ids=["another protocol", "another version", "no size", "endless head"],
)
def test_the_error_for_a_server_without_http_names_it(connect: Open, reply: Answer) -> None:
    with (
        serving(reply) as server,
        pytest.raises(Unreachable, match="is not an HTTP server; it responds with"),
    ):
        get(connect(server.url, retry_window=10))


def test_a_request_keeps_its_key_until_it_is_answered(connect: Open) -> None:
    with serving(LOST, answer(503), answer(), answer()) as server:
        transport = connect(server.url, retry_window=10)
        put(transport)
        put(transport)

    keys = [request.headers["idempotency-key"] for request in server.requests]
    client = keys[0].partition(":")[0]
    assert len(client) == 32
    assert keys == [f"{client}:1", f"{client}:1", f"{client}:1", f"{client}:2"]


def test_reads_have_no_key(connect: Open) -> None:
    with serving(answer()) as server:
        get(connect(server.url))

    assert "idempotency-key" not in server.requests[0].headers


@pytest.mark.parametrize("last", [LOST, answer(503)], ids=["lost", "busy"])
def test_the_client_of_an_abandoned_request_is_not_reused(connect: Open, last: Answer) -> None:
    with serving(answer(), last, answer()) as server:
        transport = connect(server.url)
        put(transport)
        server.close_connections()
        time.sleep(0.05)
        with suppress(Unreachable):
            put(transport)
        put(transport)

    first, given_up, after = (
        request.headers["idempotency-key"].split(":") for request in server.requests
    )
    assert given_up == [first[0], "2"]
    assert after[0] != first[0] and after[1] == "1"


def test_each_thread_has_its_own_client(connect: Open) -> None:
    with serving(answer(delay=0.002)) as server:
        transport = connect(server.url)
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: put(transport), range(200)))

    numbers = defaultdict(list)
    for request in server.requests:
        client, number = request.headers["idempotency-key"].split(":")
        numbers[client, request.connection].append(int(number))
    assert len(numbers) <= 8
    assert all(each == list(range(1, len(each) + 1)) for each in numbers.values())


def test_the_number_of_connections_is_bounded(
    connect: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST_CONNECTIONS", 3)
    with serving(answer(delay=0.01)) as server:
        transport = connect(server.url)
        with ThreadPoolExecutor(12) as threads:
            list(threads.map(lambda _: get(transport), range(48)))

        assert server.connections() <= 3


def test_a_refreshed_token_is_used_from_then_on(connect: Open) -> None:
    with serving(answer(Refreshed_API_Token="fresh"), answer()) as server:
        transport = connect(server.url)
        get(transport)
        get(transport)
        other = pickle.loads(pickle.dumps(transport))
        get(other)
        other.close()

    tokens = [request.headers["authorization"] for request in server.requests]
    assert tokens == [f"Bearer {TOKEN}", "Bearer fresh", "Bearer fresh"]


def test_a_token_is_refreshed_during_retries(connect: Open) -> None:
    with serving(answer(503, Refreshed_API_Token="fresh"), answer()) as server:
        get(connect(server.url, retry_window=10))

    assert server.requests[1].headers["authorization"] == "Bearer fresh"


def test_the_token_is_not_shown(connect: Open) -> None:
    transport = connect(f"http://127.0.0.1:{free_port()}")
    with pytest.raises(Unreachable) as caught:
        get(transport)

    assert TOKEN not in f"{transport!r} {caught.value!r} {caught.value.__cause__!r}"
    assert repr(transport) == f"<Transport {transport.url}>"


def test_a_forked_process_has_its_own_connections_and_clients(connect: Open) -> None:
    with serving(answer()) as server:
        transport = connect(server.url)
        put(transport)
        child = os.fork()
        if not child:
            os._exit(put(transport).status != 200)
        assert os.waitpid(child, 0)[1] == 0
        put(transport)

    keys = [request.headers["idempotency-key"].split(":") for request in server.requests]
    assert [request.connection for request in server.requests] == [1, 2, 1]
    assert keys[1][0] != keys[0][0] and keys[1][1] == "1"
    assert keys[2] == [keys[0][0], "2"]


def test_a_closed_transport_keeps_no_connection(connect: Open) -> None:
    with serving(answer(delay=0.2)) as server:
        transport = connect(server.url)
        asking = Thread(target=get, args=(transport,))
        asking.start()
        time.sleep(0.1)
        transport.close()
        asking.join()

        assert transport._idle == []


@pytest.mark.parametrize(
    ("url", "shown", "port"),
    [
        ("http://host", "http://host", 80),
        ("https://host/", "https://host", 443),
        ("HTTPS://Host:8443/a/b/", "https://host:8443/a/b", 8443),
        ("http://[::1]:8793", "http://[::1]:8793", 8793),
        ("http://bücher.example", "http://xn--bcher-kva.example", 80),
    ],
)
def test_a_url_is_parsed(url: str, shown: str, port: int) -> None:
    address = module.parse_url(url)

    assert (address.url, address.port) == (shown, port)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "host:8793",
        "ftp://host",
        "http://",
        "http://host:port",
        "http://host:99999",
        "http://host/?a=b",
        "http://host/#a",
        "http://host/a b",
        "http://host/a\r\nX: y",
        "http://[::1",
        f"http://{'a' * 70}.example",
    ],
)
def test_an_invalid_server_url_is_refused(url: str) -> None:
    with pytest.raises(InvalidAddress, match="URL"):
        Transport(url, TOKEN)


def test_a_url_with_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(InvalidAddress, match="use a token instead") as caught:
        Transport("http://ann:secret@host", TOKEN)

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["http://host/?token=secret", "host/?token=secret", "http://host/#secret\nsecret"]
)
def test_a_url_with_a_query_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(InvalidAddress, match="is not a server's URL") as caught:
        Transport(url, TOKEN)

    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("token", ["", "a b", "secret\r\nX: y", "sécret"])
def test_a_bad_token_is_refused_without_showing_it(token: str) -> None:
    with pytest.raises(InvalidToken) as caught:
        Transport("http://host", token)

    assert "cret" not in str(caught.value)


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[ssl.SSLContext, Path]:
    certificate, key = make_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    return context, certificate


def test_a_trusted_certificate_is_accepted(
    connect: Open, certificate: tuple[ssl.SSLContext, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    context, file = certificate
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    with serving(answer(), certificate=context) as server:
        transport = connect(server.url)
        get(transport)
        get(transport)
        assert server.connections() == 1

        server.close_connections()
        assert get(transport).status == 200


def test_an_untrusted_certificate_is_refused_at_once(
    connect: Open, certificate: tuple[ssl.SSLContext, Path]
) -> None:
    with serving(answer(), certificate=certificate[0]) as server:
        transport = connect(server.url, retry_window=60)
        with pytest.raises(Unreachable, match="certificate that is not trusted: self-signed"):
            get(transport)

    assert server.requests == []


def test_https_to_a_server_without_tls_has_its_own_error(connect: Open) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        transport = connect(f"https://127.0.0.1:{listening.getsockname()[1]}", retry_window=60)
        with ThreadPoolExecutor(1) as threads:
            asking = threads.submit(get, transport)
            connection, _ = listening.accept()
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            with pytest.raises(Unreachable, match="does not speak TLS: WRONG_VERSION_NUMBER"):
                asking.result()
            connection.close()
