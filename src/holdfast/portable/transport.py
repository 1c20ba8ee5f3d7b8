"""HTTP client for one server, with persistent connections.

Needs only the standard library and `holdfast.portable.backoff`, and may be pickled by value: Spark
ships it to executors that have nothing else. It implements HTTP itself, because `http.client` takes
longer to parse the head of a response than our server to process the whole request.
"""

from __future__ import annotations

import os
import random
import re
import select
import socket
import ssl
import sys
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from queue import SimpleQueue
from types import ModuleType
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from uuid import uuid4

from holdfast.portable.backoff import Backoff

MOST_CONNECTIONS = 64
MOST_SHARED = 8
LARGEST_HEAD = 64 * 1024
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
PASSING = frozenset({408, 429, 502, 503, 504})
"""Status codes of responses to retry."""


class InvalidAddress(ValueError):
    """A URL that cannot be a server's."""


class InvalidToken(ValueError):
    """A token that no server can have issued."""


class Unreachable(Exception):
    """The server does not respond, or is not an HTTP server."""


class NotHttp(Exception):
    """The received data is not an HTTP response."""


class Endpoint(NamedTuple):
    """The URL of a server, a token for somebody's stores on it, and for how many seconds to retry
    while the server is unreachable."""

    url: str
    token: str
    retry_window: float = 0.0


class Response(NamedTuple):
    """The response of the server. Header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes


class Address(NamedTuple):
    """The parts of a server's URL."""

    url: str
    secure: bool
    host: str
    port: int
    authority: str
    path: str


class Transport:
    """Sends requests to the server at a URL, with a token; thread-safe.

    Every request must be safe to repeat: a read, or one with `once=True`. While the server is
    unreachable or busy, it is retried for `retry_window` seconds. Each try may take `timeout`
    seconds.
    """

    def __init__(
        self, url: str, token: str, *, retry_window: float = 0.0, timeout: float = 30.0
    ) -> None:
        self._address = parse_url(url)
        self._token = checked_token(token)
        self._retry_window = retry_window
        self._timeout = timeout
        self._secured: ssl.SSLContext | None = None
        self._closed = False
        self._start()

    def _start(self) -> None:
        self._process = os.getpid()
        self._idle: list[Lane] = []
        self._permits: SimpleQueue[None] = SimpleQueue()
        for _ in range(MOST_CONNECTIONS):
            self._permits.put(None)

    def __repr__(self) -> str:
        return f"<Transport {self.url}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.url, self._token, self._retry_window, self._timeout)

    @property
    def url(self) -> str:
        """The URL of the server, without a trailing slash."""
        return self._address.url

    @property
    def token(self) -> str:
        """The token that requests are sent with; the server may have replaced the one given."""
        return self._token

    @token.setter
    def token(self, token: str) -> None:
        self._token = checked_token(token)

    def request(
        self,
        method: str,
        path: str,
        body: bytes = b"",
        headers: Mapping[str, str] | None = None,
        *,
        once: bool = False,
        again: Callable[[Response, str], bool] | None = None,
    ) -> Response:
        """Return the response, whatever its status. `path` is relative to that of the URL.

        `once` gives the request an `Idempotency-Key`, by which the server recognizes a repeated
        request. `again` is called, at most once, with a response and the token that its request was
        sent with: if it returns true, because there is a new token, the same request is sent again.
        """
        extra = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
        line = f"{method} {self._address.path}{path} HTTP/1.1\r\n"
        if os.getpid() != self._process:
            self.forget()
        self._permits.get()
        lane = self._take()
        answered = False
        try:
            if once:
                lane.number += 1
                extra += f"Idempotency-Key: {lane.client}:{lane.number}\r\n"
            rest = f"{extra}Content-Length: {len(body)}\r\n\r\n"
            response = self._insist(lane, line, rest, body, again)
            answered = not is_passing(response)
        finally:
            self._give(lane, answered)
        return response

    def close(self) -> None:
        """Close idle connections at once, and those in use after their response."""
        self._closed = True
        while self._idle:
            self._take().close()

    def forget(self) -> None:
        """Start anew in a forked process: connections and clients belong to the parent."""
        idle = self._idle
        self._start()
        for lane in idle:
            lane.close()

    def _take(self) -> Lane:
        try:
            return self._idle.pop()
        except IndexError:
            return Lane()

    def _give(self, lane: Lane, answered: bool) -> None:
        """Return a lane to the pool. A request without a response could still arrive, so its client
        is not used again."""
        if answered and not self._closed:
            self._idle.append(lane)
        else:
            lane.close()
        self._permits.put(None)

    def _insist(
        self,
        lane: Lane,
        line: str,
        rest: str,
        body: bytes,
        again: Callable[[Response, str], bool] | None,
    ) -> Response:
        """Retry until the response is final, or the retry window ends. Raise Unreachable without
        any."""
        deadline = 0.0
        backoff = Backoff(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            token = self._token
            request = f"{line}{self._who(token)}{rest}".encode("ascii") + body
            outcome = self._try(lane, request)
            if isinstance(outcome, Response) and not is_passing(outcome):
                if again is None or not again(outcome, token):
                    return outcome
                again = None
                continue
            wait = backoff.pause() * random.uniform(0.5, 1.0)  # noqa: S311
            if isinstance(outcome, Response):
                wait += asked_pause(outcome)
            now = time.monotonic()
            deadline = deadline or now + self._retry_window
            if now + wait > deadline:
                if isinstance(outcome, Response):
                    return outcome
                raise Unreachable(f"{self.url} {self._explain(outcome)}") from outcome
            time.sleep(wait)

    def _try(self, lane: Lane, request: bytes) -> Response | OSError:
        try:
            response = self._exchange(lane, request)
        except OSError as error:
            lane.close()
            return error
        except NotHttp as error:
            raise Unreachable(
                f"{self.url} is not an HTTP server; it responds with {error}"
            ) from None
        if fresh := response.headers.get("refreshed-api-token"):
            self._token = fresh
        return response

    def _exchange(self, lane: Lane, request: bytes) -> Response:
        deadline = time.monotonic() + self._timeout
        if lane.is_usable():
            try:
                return lane.exchange(request, deadline)
            except (ConnectionError, ssl.SSLError):
                lane.close()  # the server had closed it while it was idle
        lane.open(self._connect())
        return lane.exchange(request, deadline)

    def _who(self, token: str) -> str:
        return f"Host: {self._address.authority}\r\nAuthorization: Bearer {token}\r\n"

    def _connect(self) -> socket.socket:
        address = self._address
        sock = socket.create_connection((address.host, address.port), self._timeout)
        try:
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            return self._secure(sock) if address.secure else sock
        except BaseException:
            sock.close()
            raise

    def _secure(self, sock: socket.socket) -> socket.socket:
        if self._secured is None:
            self._secured = ssl.create_default_context()
        try:
            return self._secured.wrap_socket(sock, server_hostname=self._address.host)
        except (ssl.SSLEOFError, ssl.SSLZeroReturnError, ssl.SSLSyscallError):
            raise
        except ssl.SSLCertVerificationError as error:
            raise Unreachable(
                f"{self.url} has a certificate that is not trusted: {error.verify_message} (set "
                "the environment variable SSL_CERT_FILE to a file with certificates to trust)"
            ) from error
        except ssl.SSLError as error:
            raise Unreachable(f"{self.url} does not speak TLS: {error.reason}") from error

    def _explain(self, error: OSError) -> str:
        if isinstance(error, TimeoutError):
            reason = f"does not answer within {self._timeout:g} s"
        else:
            reason = f"does not answer: {error.strerror or error}"
        return (
            f"{reason}, after {self._retry_window:g} s of retries" if self._retry_window else reason
        )


class Lane:
    """Sequential requests of one client, numbered, over one connection.

    The connection may be replaced; a request is identified by client and number.
    """

    def __init__(self) -> None:
        self.client = uuid4().hex
        self.number = 0
        self._socket: socket.socket | None = None
        self._poll = select.poll()

    def open(self, connected: socket.socket) -> None:
        self._socket = connected
        self._poll.register(connected, select.POLLIN)

    def is_usable(self) -> bool:
        """Return whether there is a connection that the server has not closed or sent unrequested
        data on."""
        if self._socket is None:
            return False
        if self._poll.poll(0):
            self.close()
            return False
        return True

    def exchange(self, request: bytes, deadline: float) -> Response:
        assert self._socket is not None
        unsent = False
        try:
            self._socket.sendall(request)
        except ConnectionError:
            unsent = True  # the server may have responded with the reason
        response, reusable = Reader(self._socket, deadline).response()
        if unsent or not reusable:
            self.close()
        return response

    def close(self) -> None:
        if self._socket is not None:
            self._poll.unregister(self._socket)
            self._socket.close()
            self._socket = None


class Reader:
    """Reads one response from a connection."""

    def __init__(self, source: socket.socket, deadline: float) -> None:
        self._source = source
        self._deadline = deadline
        self._data = b""

    def response(self) -> tuple[Response, bool]:
        """Return the response, and whether the connection can be reused."""
        status, headers = self._head()
        while status < 200:
            status, headers = self._head()
        kept = "close" not in headers.get("connection", "").lower()
        length = headers.get("content-length", "")
        if status in (204, 304):
            body = b""
        elif headers.get("transfer-encoding", "").lower() == "chunked":
            body = self._chunks()
        elif length.isdecimal():
            body = self._exactly(int(length))
        else:
            body = self._rest()
            kept = False
        return Response(status, headers, body), kept and not self._data

    def _head(self) -> tuple[int, dict[str, str]]:
        self._data = self._data or self._more()
        if not b"HTTP/".startswith(self._data[:5]):
            raise NotHttp(repr(self._data[:40]))
        return read_head(self._until(b"\r\n\r\n"))

    def _chunks(self) -> bytes:
        chunks = []
        while size := chunk_size(self._until(b"\r\n")):
            chunks.append(self._exactly(size))
            self._exactly(2)
        while self._until(b"\r\n"):
            pass  # trailers
        return b"".join(chunks)

    def _until(self, end: bytes) -> bytes:
        while True:
            found, separator, rest = self._data.partition(end)
            if separator:
                self._data = rest
                return found
            if len(self._data) > LARGEST_HEAD:
                raise NotHttp(repr(self._data[:40]))
            self._data += self._more()

    def _exactly(self, size: int) -> bytes:
        parts = [self._data]
        missing = size - len(self._data)
        while missing > 0:
            parts.append(self._more())
            missing -= len(parts[-1])
        data = b"".join(parts)
        self._data = data[size:]
        return data[:size]

    def _rest(self) -> bytes:
        parts = [self._data]
        while part := self._received():
            parts.append(part)
        self._data = b""
        return b"".join(parts)

    def _more(self) -> bytes:
        data = self._received()
        if not data:
            raise ConnectionResetError("the connection closed before the end of the response")
        return data

    def _received(self) -> bytes:
        data = self._source.recv(65536)
        if time.monotonic() > self._deadline:
            raise TimeoutError
        return data


def read_head(head: bytes) -> tuple[int, dict[str, str]]:
    """Return the status and headers of a response."""
    first, *lines = head.decode("latin-1").split("\r\n")
    if not _STATUS_LINE.match(first):
        raise NotHttp(repr(head[:40]))
    headers = {}
    for line in lines:
        name, _, value = line.partition(":")
        headers[name.lower()] = value.strip()
    if first.startswith("HTTP/1.0"):
        headers.setdefault("connection", "close")
    return int(first[9:12]), headers


def chunk_size(line: bytes) -> int:
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError:
        raise NotHttp(repr(line[:40])) from None


def is_passing(response: Response) -> bool:
    """Return whether the server, or a proxy in front of it, is busy: the request may be retried.

    A 502 with a JSON body is not the proxy's: it is our server's report of a backend that failed.
    """
    if response.status not in PASSING:
        return False
    return response.status != 502 or "json" not in response.headers.get("content-type", "")


def asked_pause(response: Response) -> float:
    """Return for how many seconds the server asks to wait before a retry."""
    exactly = response.headers.get("retry-after-ms", "")
    if exactly.isdecimal():
        return int(exactly) / 1000
    text = response.headers.get("retry-after", "")
    if text.isdecimal():
        return float(text)
    try:
        until = parsedate_to_datetime(text)
    except ValueError:
        return 0.0
    return max(0.0, until.timestamp() - time.time())


def parse_url(url: str) -> Address:
    """Return the parts of a server's URL; raise InvalidAddress if it is not one."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise InvalidAddress(f"the server's URL cannot be parsed: {error}") from None
    if "@" in parts.netloc:
        raise InvalidAddress("the server's URL contains a name or password; use a token instead")
    # A query may be a token.
    shown = re.sub(r"[?#].+", "?…", url, flags=re.DOTALL)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise InvalidAddress(
            f"{shown!r} is not a server's URL: write http://host:port or https://host"
        )
    if parts.query or parts.fragment or re.search(r"[^!-~]", parts.path):
        raise InvalidAddress(
            f"{shown!r} is not a server's URL: it must end with the host, port or path"
        )
    try:
        host = parts.hostname.encode("idna").decode("ascii")
    except UnicodeError:
        raise InvalidAddress(f"{shown!r} is not a server's URL: the host name is invalid") from None
    secure = parts.scheme == "https"
    bracketed = f"[{host}]" if ":" in host else host
    authority = bracketed if port is None else f"{bracketed}:{port}"
    path = parts.path.rstrip("/")
    shown = f"{parts.scheme}://{authority}{path}"
    return Address(shown, secure, host, port or (443 if secure else 80), authority, path)


def checked_token(token: str) -> str:
    """Return the token; raise InvalidToken, without showing it, if it is malformed."""
    if not re.fullmatch(r"[!-~]+", token):
        raise InvalidToken(
            "the token contains invalid characters" if token else "the token is empty"
        )
    return token


def shared(endpoint: Endpoint) -> Transport:
    """Return the transport of this process for that endpoint.

    Transports are cached outside of this module: if it was pickled by value, one process may have
    several copies of it. When there are too many, the least recently requested one is closed.
    """
    module = sys.modules.setdefault(_SHARED_MODULE, ModuleType(_SHARED_MODULE))
    kept: dict[Any, Transport] = vars(module).setdefault("transports", {})
    key = (Transport, endpoint)
    transport = kept.pop(key, None)
    if transport is None:
        transport = Transport(endpoint.url, endpoint.token, retry_window=endpoint.retry_window)
    transport = kept.setdefault(key, transport)
    for oldest in list(kept)[:-MOST_SHARED]:
        if (unused := kept.pop(oldest, None)) is not None:
            unused.close()
    return transport


def _reopen(url: str, token: str, retry_window: float, timeout: float) -> Transport:
    return Transport(url, token, retry_window=retry_window, timeout=timeout)


_SHARED_MODULE = "_holdfast_transports"
_STATUS_LINE = re.compile(r"HTTP/1\.[01] [1-9]\d\d(?: |$)")
