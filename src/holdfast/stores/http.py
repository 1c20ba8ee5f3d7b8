"""Store behind an HTTP server: every command is a request."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from functools import cached_property, partial
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec

from holdfast.access.identity import Wanted
from holdfast.commands import Command
from holdfast.commands.paging import in_pages
from holdfast.errors import (
    Forbidden,
    InvalidUrl,
    StoreUnavailable,
    TokenRefused,
)
from holdfast.monitoring import tracing
from holdfast.portable.client import COMMANDS, HEADERS, HINT, foreign_response, refusal
from holdfast.portable.transport import (
    InvalidAddress,
    InvalidToken,
    Response,
    Transport,
    Unreachable,
)
from holdfast.store import Store
from holdfast.wire.codec import JSON

A = TypeVar("A")

TOKENS: Final = "/execution/tokens"


class Issued(msgspec.Struct, frozen=True):
    """Response to a request for a token."""

    token: str


class HttpStore(Store):
    """Store of the server at a URL, within the permissions of the token.

    While the server is down or busy, commands are retried for up to `retry_window`. A write whose
    response was lost is sent again, and executed once. What a person writes is recorded under the
    name in the token. When the token has expired, for example while a request waited for the
    server, the request is sent again with the token that another request obtained meanwhile, or
    with the one that `new_token` returns.
    """

    def __init__(
        self,
        url: str,
        token: str,
        *,
        retry_window: timedelta = timedelta(0),
        timeout: timedelta = timedelta(seconds=30),
        new_token: Callable[[], str] | None = None,
    ) -> None:
        self._new_token = new_token
        try:
            self._transport = Transport(
                url,
                token,
                retry_window=retry_window.total_seconds(),
                timeout=timeout.total_seconds(),
            )
        except InvalidAddress as error:
            raise InvalidUrl(str(error), hint="use the URL that `holdfast server` prints") from None
        except InvalidToken as error:
            raise Forbidden(str(error), hint="use a token that `holdfast auth` printed") from None

    def __repr__(self) -> str:
        return f"<HttpStore {self._transport.url}>"

    def supports(self, command: type[Command[Any]]) -> bool:
        return command.__name__ in self._commands

    def execute(self, command: Command[A]) -> A:
        return in_pages(command, self._answer)

    def _answer(self, command: Command[A]) -> A:
        response = self._ask("POST", JSON.encode(command), once=not command.reads)
        return self._decoded(response, partial(JSON.decode_answer, command))

    def _decoded(self, response: Response, decode: Callable[[bytes], A]) -> A:
        """Return the content of a response. Raise the error that it reports."""
        if response.status != HTTPStatus.OK:
            raise refusal(self.url, response)
        try:
            return decode(response.body)
        except msgspec.DecodeError:
            raise foreign_response(self.url, response) from None

    @property
    def url(self) -> str:
        return self._transport.url

    def token_for(self, wanted: Wanted) -> str:
        """Return a token for another client, with fewer permissions than this store's own."""
        response = self._ask("POST", JSON.encode(wanted), path=TOKENS)
        issued: Issued = self._decoded(response, partial(msgspec.json.decode, type=Issued))
        return issued.token

    def get(self, path: str) -> Response:
        """Return the response to a request for a path of the server. Raise the error that it
        reports."""
        response = self._ask("GET", path=path)
        if response.status != HTTPStatus.OK:
            raise refusal(self.url, response)
        return response

    def close(self) -> None:
        self._transport.close()

    @cached_property
    def _commands(self) -> frozenset[str]:
        """Names of the commands that the server's own store supports."""
        return self._decoded(self._ask("GET"), partial(msgspec.json.decode, type=frozenset[str]))

    def _ask(
        self, method: str, body: bytes = b"", *, path: str = COMMANDS, once: bool = False
    ) -> Response:
        try:
            return self._transport.request(
                method,
                path,
                body,
                HEADERS | tracing.headers(),
                once=once,
                again=self._has_another_token,
            )
        except Unreachable as error:
            raise StoreUnavailable(str(error), hint=HINT) from error

    def _has_another_token(self, response: Response, used: str) -> bool:
        """Return whether there is another token to retry with, after a refusal of the one that was
        used; call `new_token` unless another request has replaced it already."""
        if response.status != TokenRefused.status:
            return False
        if not isinstance(refusal(self.url, response), TokenRefused):
            return False
        if self._transport.token == used and self._new_token is not None:
            self._transport.token = self._new_token()
        return self._transport.token != used
