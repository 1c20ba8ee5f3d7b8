"""uvicorn's HTTP protocol with limits on the head of a request and on its duration, and with errors
in our format where the request itself cannot be read."""

from __future__ import annotations

import asyncio
import http
from functools import partial
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from holdfast.errors import HoldfastError, RequestHeadTooLarge, RequestRefused
from holdfast.server.http import error_responses
from holdfast.server.http.limits import (
    LONGEST_HEAD,
    REFUSAL,
    Connections,
    RequestQueue,
    overloaded,
    too_slow,
)
from holdfast.settings import Api

PIECE = 1024
"""Bytes of a connection that are parsed at once. They may contain many requests."""
LINGER = 2.0
"""Seconds for which the rest of a refused request is read and discarded, so that the client, which
may still be sending, gets to read the response."""


class LimitedProtocol(HttpToolsProtocol):
    """One connection. Its limits are those of the application's settings."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        state = cast(Any, self.app).state
        api: Api = state.settings.api
        self._max_head = api.max_header_bytes
        self._seconds = api.request_timeout.total_seconds()
        self._head_seconds = min(self._seconds, LONGEST_HEAD)
        self._began = self.loop.time()
        self._connections: Connections = state.connections
        self._request_queue: RequestQueue = state.request_queue
        self._pipelined = False
        self._unparsed = b""
        self._outlet = _Outlet(self)
        self._deaf = False
        self._in_head = True
        self._loose_bytes = 0  # received since the last part of a body
        self._timer: asyncio.TimerHandle | None = None
        self._unread: asyncio.TimerHandle | None = None
        self._start_timer()
        if len(self.connections) > self._connections.most and not self._connections.make_way(self):
            self._refuse(overloaded())
        self._connections.wait(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.leave(self)
        self._stop_timer()
        self._stop_unread()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._unparsed:
            self._unparsed += data
        else:
            self._parse(data)

    def _parse(self, data: bytes) -> None:
        """Parse up to a request that has to wait for the previous one."""
        for start in range(0, len(data), PIECE):
            if self.pipeline:
                self._unparsed = data[start:]
                self._stop_timer()  # the client is not the one that is slow
                self.flow.pause_reading()
                return
            self._feed(data[start : start + PIECE])
        self._unparsed = b""

    def _feed(self, data: bytes) -> None:
        if self._deaf:
            return
        self._loose_bytes += len(data)
        super().data_received(data)
        if self._loose_bytes > self._max_head and not self._deaf:
            self._refuse(_head_too_large(self._max_head))
        elif self._in_head and self._timer is None and self._is_idle():
            # Whatever was received, it has cancelled uvicorn's own timeout for the next request.
            self._start_timer()

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._loose_bytes = max(1, self._loose_bytes)
        self._stop_timer()
        self._start_timer()

    def on_headers_complete(self) -> None:
        self._connections.leave(self)
        size = len(self.url) + sum(len(name) + len(value) for name, value in self.headers)
        if size > self._max_head:
            cast(Any, self.scope)[REFUSAL] = _head_too_large(self._max_head)
        super().on_headers_complete()
        self.cycle.transport = cast(Any, self._outlet)
        self.headers = []  # trailers are not headers of the request
        self._in_head = False
        self._loose_bytes = 0

    def on_body(self, body: bytes) -> None:
        self._loose_bytes = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._stop_timer()
        self._in_head = True
        self._loose_bytes = 0
        super().on_message_complete()

    def send_400_response(self, msg: str) -> None:
        self._refuse(
            RequestRefused("the request is not valid HTTP", hint="the server speaks HTTP/1.1")
        )

    def pause_writing(self) -> None:
        super().pause_writing()
        self._start_unread()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._stop_unread()

    def timeout_keep_alive_handler(self) -> None:
        self._close()

    def on_response_complete(self) -> None:
        self._pipelined = True
        super().on_response_complete()
        self._pipelined = False
        if self._unparsed:
            self.flow.pause_reading()
        if self._is_idle():  # else the next request was received already
            self._connections.wait(self)

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        if self._pipelined:
            self._request_queue.wait(partial(self._begin, cycle, app))
        else:
            super()._start_asgi_task(cycle, app)

    def _begin(self, cycle: RequestResponseCycle, app: Any) -> None:
        """Start a request that has waited for the previous one."""
        if self.transport.is_closing():
            return
        super()._start_asgi_task(cycle, app)
        if not self.pipeline:
            self._parse(self._unparsed)

    def abort(self) -> None:
        """Close at once, without a response."""
        self._deaf = True
        self.transport.abort()

    def finish(self) -> None:
        """Close, but not while the client is still sending: it would not see the response."""
        if self.transport.is_closing():
            return
        if not self._deaf and not self.cycle.more_body:
            self._close()
            return
        self._deaf = True
        self._connections.wait(self)
        self._stop_timer()
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self._timer = self.loop.call_later(LINGER, self._close)

    def _close(self) -> None:
        """Close when the client has read everything, or its time is up."""
        self.transport.close()
        self._start_unread()

    def _is_idle(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _start_timer(self) -> None:
        if self._seconds:
            self._began = self.loop.time()
            self._timer = self.loop.call_later(self._head_seconds, self._time_is_over)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _start_unread(self) -> None:
        if self._seconds and self._unread is None:
            self._unread = self.loop.call_later(self._seconds, self.transport.abort)

    def _stop_unread(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _time_is_over(self) -> None:
        self._timer = None
        rest = self._began + self._seconds - self.loop.time()
        if self._in_head and not self._loose_bytes:
            self._close()
        elif self._in_head:
            self._refuse(too_slow("the request head", self._head_seconds))
        elif rest > 0:
            self._timer = self.loop.call_later(rest, self._time_is_over)
        else:
            self._refuse(too_slow("the request", self._seconds))

    def _refuse(self, error: HoldfastError) -> None:
        """Stop reading, and report the error in the response to the request that is being read."""
        self._deaf = True
        if not self._is_idle():
            self.cycle.keep_alive = False
            if not self._in_head:
                cast(Any, self.cycle.scope)[REFUSAL] = error
                self.cycle.message_event.set()
        elif self._in_head:
            self.transport.write(_response(error))
            self.finish()
        else:
            self._close()


class _Outlet:
    """The transport of a response. Head and body are written one after the other, and sent
    together."""

    def __init__(self, protocol: LimitedProtocol) -> None:
        self.is_closing = protocol.transport.is_closing
        self._protocol = protocol
        self._held = b""

    def write(self, data: bytes) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._send(held, data)
        else:
            self._held = data
            self._protocol.loop.call_soon(self._let_go)

    def close(self) -> None:
        self._let_go()
        self._protocol.finish()

    def _let_go(self) -> None:
        if self._held:
            held, self._held = self._held, b""
            self._send(held)

    def _send(self, *parts: bytes) -> None:
        if not self.is_closing():  # the client may have disconnected since the response was started
            self._protocol.transport.writelines(parts)


def _response(error: HoldfastError) -> bytes:
    body = error_responses.body(error.code, error.message, error.hint)
    head = (
        f"HTTP/1.1 {error.status} {http.HTTPStatus(error.status).phrase}\r\n"
        f"content-type: {error_responses.MEDIA_TYPE}\r\n"
        f"content-length: {len(body)}\r\n"
        "connection: close\r\n\r\n"
    )
    return head.encode() + body


def _head_too_large(limit: int) -> HoldfastError:
    return RequestHeadTooLarge(
        f"the request head is over {limit:,} bytes",
        hint="[api] max_header_bytes is the limit",
    )
