"""The store behind a server: every command is a request."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from functools import cached_property
from http import HTTPStatus
from typing import Any, Final, TypeVar

import msgspec

from holdfast.access.identity import Wanted
from holdfast.commands import Command
from holdfast.commands.paging import in_pages
from holdfast.errors import (
    Forbidden,
    HoldfastError,
    InvalidUrl,
    NoToken,
    RequestTooLarge,
    StoreUnavailable,
    TokenRefused,
    TooManyRequests,
)
from holdfast.portable.transport import (
    InvalidAddress,
    InvalidToken,
    Response,
    Transport,
    Unreachable,
)
from holdfast.store import Store
from holdfast.wire.codec import JSON, Refusal, raised

A = TypeVar("A")

COMMANDS: Final = "/execution/commands"
TOKENS: Final = "/execution/tokens"
_HEADERS: Final = {"Content-Type": "application/json"}


class Problem(msgspec.Struct, frozen=True):
    """The body of every answer that is an error."""

    detail: Refusal


class Issued(msgspec.Struct, frozen=True):
    """The answer to the wish for a token."""

    token: str


class HttpStore(Store):
    """The store of the server at a URL, as far as the token allows.

    While the server is away or busy, commands wait for it up to `retry_window`. A write whose
    answer was lost is sent again, and carried out once. What a person writes is recorded under the
    name that is in the token. Where that ran out, as in a request that waited for the server, the
    request is sent again with the one that another request was given meanwhile, or `new_token`
    returns.
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
            raise InvalidUrl(str(error), hint="use the URL that the server shows") from None
        except InvalidToken as error:
            raise Forbidden(str(error), hint="use a token as `holdfast auth` shows it") from None

    def __repr__(self) -> str:
        return f"<HttpStore {self._transport.url}>"

    def supports(self, command: type[Command[Any]]) -> bool:
        return command.__name__ in self._commands

    def execute(self, command: Command[A]) -> A:
        return in_pages(command, self._answer)

    def _answer(self, command: Command[A]) -> A:
        response = self._ask("POST", JSON.encode(command), once=not command.reads)
        if response.status != HTTPStatus.OK:
            raise self._refusal(response)
        try:
            return JSON.decode_answer(command, response.body)
        except msgspec.DecodeError:
            raise self._stranger(response) from None

    @property
    def url(self) -> str:
        return self._transport.url

    def token_for(self, wanted: Wanted) -> str:
        """A token that may do less than this store's own, for somebody else."""
        response = self._ask("POST", JSON.encode(wanted), path=TOKENS)
        if response.status != HTTPStatus.OK:
            raise self._refusal(response)
        try:
            return msgspec.json.decode(response.body, type=Issued).token
        except msgspec.DecodeError:
            raise self._stranger(response) from None

    def close(self) -> None:
        self._transport.close()

    @cached_property
    def _commands(self) -> frozenset[str]:
        """Names of the commands that the server's own store supports."""
        response = self._ask("GET")
        if response.status != HTTPStatus.OK:
            raise self._refusal(response)
        try:
            return msgspec.json.decode(response.body, type=frozenset[str])
        except msgspec.DecodeError:
            raise self._stranger(response) from None

    def _ask(
        self, method: str, body: bytes = b"", *, path: str = COMMANDS, once: bool = False
    ) -> Response:
        try:
            return self._transport.request(
                method, path, body, _HEADERS, once=once, again=self._has_another_token
            )
        except Unreachable as error:
            raise StoreUnavailable(
                str(error), hint="check the URL, and whether `holdfast server` runs there"
            ) from error

    def _has_another_token(self, response: Response, used: str) -> bool:
        """Have another token, where the one that was used is refused; False where there is none."""
        if response.status != TokenRefused.status:
            return False
        if not isinstance(self._refusal(response), TokenRefused):
            return False
        if self._transport.token == used and self._new_token is not None:
            self._transport.token = self._new_token()
        return self._transport.token != used

    def _refusal(self, response: Response) -> HoldfastError:
        try:
            return raised(_PROBLEMS.decode(response.body).detail)
        except msgspec.DecodeError:
            return self._stranger(response)

    def _stranger(self, response: Response) -> HoldfastError:
        """The error for an answer that is none of our server: a proxy's, or another service's."""
        status, headers, _ = response
        facts = (headers.get(name) for name in ("content-type", "server"))
        shown = ", ".join(filter(None, (f"{status} {_phrase(status)}".strip(), *facts)))
        hint = "check the URL, and the proxy in front of the server if there is one"
        if location := headers.get("location"):
            hint = f"it refers to {location}: use the URL of the server itself"
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            kind: type[HoldfastError] = StoreUnavailable
        else:
            kind = _KINDS.get(status, InvalidUrl)
        return kind(
            f"{self._transport.url} answered as no Holdfast server does ({shown})", hint=hint
        )


_PROBLEMS: Final = msgspec.json.Decoder(Problem)
_KINDS: Final[Mapping[int, type[HoldfastError]]] = {
    kind.status: kind for kind in (NoToken, Forbidden, RequestTooLarge, TooManyRequests)
}


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
