"""Tokens: identities that the server has signed, so that it believes them when they come back."""

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
"""Seconds that the clock of the server that made a token may be behind ours."""
GIVEN_AWAY = timedelta(days=7)
"""How long the token of a handle or job is good for that was given to another process. It may be
first used when Spark gets to it, hours later, so that renewing it while it is used is not enough.
That of an attempt or intent is of no use any more, however young, once that is over: the store
looks in the same transaction as it reads or writes."""

Bearer: TypeAlias = (
    TaskIdentity | WatcherIdentity | JobIdentity | HandleIdentity | WorkerIdentity | UserIdentity
)
"""Those who can have a token. The others live behind a pipe."""


class Verified(msgspec.Struct, frozen=True, dict=True):
    """What a token says, once its signature was found right."""

    identity: Bearer
    issued_at: float = msgspec.field(name="iat")
    expires_at: float = msgspec.field(name="exp")
    final: bool = False
    """A person gave it away, whose own token ends."""

    @cached_property
    def bearer(self) -> bytes:
        """The identity as bytes, made once for all the requests that come with the token."""
        return msgspec.json.encode(self.identity)

    @property
    def renewable(self) -> bool:
        """While it is used, its bearer gets a new one before it ends."""
        return not self.final and not isinstance(self.identity, UserIdentity | HandleIdentity)


class _Known(msgspec.Struct):
    verified: Verified
    key: str


class Tokens:
    """Signs and verifies. Tokens that were verified are remembered, as they come again and again.

    No error of it tells the token.
    """

    def __init__(self, keys: SigningKeys, lifetime: timedelta) -> None:
        self._keys = keys
        self._lifetime = lifetime
        self._known: OrderedDict[str, _Known] = OrderedDict()

    def give(self, wanted: Wanted, by: Verified | None = None) -> str:
        """A token for another process, as a handle. A person's lasts no longer than the one they
        asked with."""
        if isinstance(wanted, TaskIdentity):
            wanted = msgspec.structs.replace(wanted, handle=True)
        if by is None or by.renewable:
            return self.issue(wanted, GIVEN_AWAY)
        left = timedelta(seconds=by.expires_at - time.time())
        return self.issue(wanted, min(GIVEN_AWAY, left), final=True)

    def issue(
        self, identity: Identity, lifetime: timedelta | None = None, *, final: bool = False
    ) -> str:
        """A new token, good for the configured lifetime unless another is given."""
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
        """Whose it is; TokenRefused where it is not good."""
        known = self._known.get(text)
        if known is not None:
            if _is_good(known.verified) and self._keys.find(known.key):
                self._known.move_to_end(text)
                return known.verified
            del self._known[text]
        key, verified = self._decoded(text)
        self._known[text] = _Known(verified, key)
        if len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
        return verified

    def renewed(self, verified: Verified) -> str | None:
        """A new token for the same bearer and length of time, once half of that is over."""
        length = verified.expires_at - verified.issued_at
        if not verified.renewable or time.time() < verified.issued_at + length / 2:
            return None
        return self.issue(verified.identity, timedelta(seconds=length))

    def _decoded(self, text: str) -> tuple[str, Verified]:
        try:
            name = jwt.get_unverified_header(text).get("kid")
            key = self._keys.find(name) if isinstance(name, str) else None
            if key is None:
                raise _refused("it was signed with a key that this server does not know")
            claims = jwt.decode(
                text,
                key.secret,
                algorithms=[ALGORITHM],
                audience=AUDIENCE,
                # To the second, which is too coarse for a short life; the end is looked at below.
                options={"require": ["aud"], "verify_exp": False, "verify_iat": False},
            )
            verified = msgspec.convert(claims, Verified)
        except jwt.InvalidSignatureError:
            raise _refused("its signature is not right") from None
        except (jwt.InvalidTokenError, ValueError, TypeError):
            raise _refused("it is not one that a server of Holdfast has made") from None
        if not _is_good(verified):
            raise _refused("it has run out")
        return key.id, verified


def open_tokens(settings: Settings) -> Tokens:
    """Tokens of the keys that are configured here."""
    if not settings.api.token_lifetime:
        raise InvalidSettings(
            "api.token_lifetime is 0, so no token would be good for anything",
            hint="10m is the default",
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
