"""Tokens: identities that the server signs and verifies."""

from __future__ import annotations

import time
from collections import OrderedDict
from datetime import timedelta
from functools import cached_property
from typing import TypeAlias

import jwt
import msgspec

from holdfast.access.identity import (
    HandleIdentity,
    Identity,
    JobIdentity,
    TaskIdentity,
    UserIdentity,
    Wanted,
    WatcherIdentity,
    WorkerIdentity,
)
from holdfast.errors import InvalidInput, InvalidSettings, TokenRefused
from holdfast.server.keys import SigningKeys, open_keys
from holdfast.settings import Settings

ALGORITHM = "HS256"
AUDIENCE = "holdfast"
MOST_REMEMBERED = 4096
LEEWAY = 5.0
"""Seconds that the clock of the server that issued a token may be behind ours."""
GIVEN_AWAY = timedelta(days=7)
"""Lifetime of the token of a handle or job that was given to another process. It may be first used
when Spark gets to it, hours later, so that renewing it on use is not enough. However young, the
token of an attempt or intent is useless once that is over: the store checks this in the same
transaction as it reads or writes."""

Bearer: TypeAlias = (
    TaskIdentity | WatcherIdentity | JobIdentity | HandleIdentity | WorkerIdentity | UserIdentity
)
"""Identities that can have a token. The others are behind a pipe."""


class Verified(msgspec.Struct, frozen=True, dict=True):
    """The content of a token, once its signature was verified."""

    identity: Bearer
    issued_at: float = msgspec.field(name="iat")
    expires_at: float = msgspec.field(name="exp")
    final: bool = False
    """Whether a person, whose own token ends, has given it to another process."""

    @cached_property
    def bearer(self) -> bytes:
        """The identity as bytes, encoded once for all requests with the token."""
        return msgspec.json.encode(self.identity)

    @property
    def renewable(self) -> bool:
        """Whether its bearer gets a new token before it ends, while it is used."""
        return not self.final and not isinstance(self.identity, UserIdentity | HandleIdentity)


class Tokens:
    """Signs and verifies tokens. Verified tokens are cached, as they come again and again.

    None of its errors contains the token.
    """

    def __init__(self, keys: SigningKeys, lifetime: timedelta) -> None:
        self._keys = keys
        self._lifetime = lifetime
        self._known: OrderedDict[str, tuple[str, Verified]] = OrderedDict()

    def give(self, wanted: Wanted, by: Verified | None = None) -> str:
        """Return a token for another process, as a handle. A person's lasts no longer than the
        token with which it was requested."""
        if isinstance(wanted, TaskIdentity):
            wanted = msgspec.structs.replace(wanted, handle=True)
        if by is None or by.renewable:
            return self.issue(wanted, GIVEN_AWAY)
        left = timedelta(seconds=by.expires_at - time.time())
        return self.issue(wanted, min(GIVEN_AWAY, left), final=True)

    def issue(
        self, identity: Identity, lifetime: timedelta | None = None, *, final: bool = False
    ) -> str:
        """Return a new token, with the configured lifetime unless another is given. Raise
        InvalidInput where the identity cannot have one."""
        if not isinstance(identity, Bearer):
            raise InvalidInput(f"{identity} cannot have a token")
        length = self._lifetime if lifetime is None else lifetime
        now = time.time()
        key = self._keys.signing()
        claims = {
            "aud": AUDIENCE,
            "iat": now,
            "exp": now + length.total_seconds(),
            "identity": msgspec.to_builtins(identity),
        }
        if final:
            claims["final"] = True
        return jwt.encode(claims, key.secret, ALGORITHM, headers={"kid": key.id})

    def verify(self, text: str) -> Verified:
        """Return the content of a token. Raise TokenRefused if it is not valid."""
        if text in self._known:
            key, verified = self._known[text]
            if _is_good(verified) and self._keys.find(key):
                self._known.move_to_end(text)
                return verified
            del self._known[text]
        self._known[text] = key, verified = self._decoded(text)
        if len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
        return verified

    def renewed(self, verified: Verified) -> str | None:
        """Return a new token of the same lifetime for the same bearer, once half of the lifetime is
        over; otherwise None."""
        length = verified.expires_at - verified.issued_at
        if not verified.renewable or time.time() < verified.issued_at + length / 2:
            return None
        return self.issue(verified.identity, timedelta(seconds=length))

    def _decoded(self, text: str) -> tuple[str, Verified]:
        try:
            name = jwt.get_unverified_header(text).get("kid")
            key = self._keys.find(name) if isinstance(name, str) else None
            if key is None:
                raise _refused("it was signed with a key that this server does not have")
            claims = jwt.decode(
                text,
                key.secret,
                algorithms=[ALGORITHM],
                audience=AUDIENCE,
                # Checked below: PyJWT compares whole seconds, which is too coarse for a short
                # lifetime.
                options={"require": ["aud"], "verify_exp": False, "verify_iat": False},
            )
            verified = msgspec.convert(claims, Verified)
        except jwt.InvalidSignatureError:
            raise _refused("its signature is not valid") from None
        except (jwt.InvalidTokenError, ValueError, TypeError):
            raise _refused("it is not a token of a Holdfast server") from None
        if not _is_good(verified):
            raise _refused("it has expired")
        return key.id, verified


def open_tokens(settings: Settings) -> Tokens:
    """Return the tokens of the configured keys. Raise InvalidSettings for a lifetime of 0."""
    if not settings.api.token_lifetime:
        raise InvalidSettings(
            "api.token_lifetime is 0, so every token would be expired",
            hint="use 10m, the default",
        )
    return Tokens(open_keys(settings), settings.api.token_lifetime)


def _is_good(verified: Verified) -> bool:
    return verified.expires_at + LEEWAY > time.time()


def _refused(why: str) -> TokenRefused:
    return TokenRefused(
        f"the token is not accepted: {why}",
        hint="a task's token is renewed while it is used; get a new one with "
        "`holdfast auth task-token` or `holdfast auth user-token`",
    )
