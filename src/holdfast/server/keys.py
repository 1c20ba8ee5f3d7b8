"""Keys that sign tokens: from the settings, or in a file that only its owner can read."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import math
import os
import secrets
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from datetime import timedelta
from pathlib import Path

import msgspec

from holdfast.errors import InvalidSettings
from holdfast.process import PRIVATE
from holdfast.settings import Settings

FILE_NAME = "signing-keys.json"
SHORTEST = 32
CHECK_INTERVAL = 1.0
"""Minimum seconds between two checks of the file while the known keys suffice, and between two for
the sake of unknown key ids."""

log = logging.getLogger("holdfast.server")


class Key(msgspec.Struct, frozen=True, omit_defaults=True):
    """A secret, and until when its signatures are accepted (seconds since 1970; None: always)."""

    secret: str
    until: float | None = None

    @property
    def id(self) -> str:
        """The id by which a token names the key; it reveals nothing of the secret."""
        return hashlib.sha256(b"holdfast key " + self.secret.encode()).hexdigest()[:16]

    def __repr__(self) -> str:
        return f"<Key {self.id}>"


class SigningKeys:
    """Signing keys. The first one signs; a signature of any of them is accepted."""

    def __init__(self, keys: tuple[Key, ...]) -> None:
        self._take(keys)

    def _take(self, keys: tuple[Key, ...]) -> None:
        self._keys = keys
        self._by_id = {key.id: key for key in keys}

    def signing(self) -> Key:
        """Return the key to sign with."""
        return self._keys[0]

    def find(self, id: str) -> Key | None:
        """Return the key of that id, if its signatures are still accepted."""
        key = self._by_id.get(id)
        if key is None or (key.until is not None and key.until < time.time()):
            return None
        return key


class KeyFile(SigningKeys):
    """Keys in a file, which is created on first use and read again when it has changed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._missed_at = -math.inf
        self._looked_at = time.monotonic()
        with _translated(path):
            _make_once(path)
            self._mark = _mark(path)
        super().__init__(_read(path))

    def signing(self) -> Key:
        if time.monotonic() > self._looked_at + CHECK_INTERVAL:
            self._look()
        return super().signing()

    def find(self, id: str) -> Key | None:
        now = time.monotonic()
        if id not in self._by_id and now > self._missed_at + CHECK_INTERVAL:
            self._missed_at = now
            self._look()
        elif now > self._looked_at + CHECK_INTERVAL:
            self._look()
        return super().find(id)

    def _look(self) -> None:
        self._looked_at = time.monotonic()
        try:
            mark = _mark(self._path)
            if mark == self._mark:
                return
            keys = _read(self._path)
        except (OSError, InvalidSettings) as error:
            log.warning("the signing keys were not reloaded: %s", error)
            return
        self._mark = mark
        self._take(keys)


def open_keys(settings: Settings) -> SigningKeys:
    """Return the configured keys, or else those of the file under home."""
    if settings.api.signing_key:
        return SigningKeys(_configured(settings))
    return KeyFile(settings.home / FILE_NAME)


def rotate(settings: Settings, overlap: timedelta) -> None:
    """Sign with a new key from now on. Signatures of the old ones are accepted for `overlap` more.
    Raise InvalidSettings where the keys are configured."""
    if settings.api.signing_key:
        raise InvalidSettings(
            "the signing key is set in the settings, so it cannot be rotated here",
            hint="insert a new key and a comma before the old one in "
            f"{settings.origins.get('api.signing_key', 'api.signing_key')}, restart the "
            "servers, and remove the old key when its tokens have expired",
        )
    path = settings.home / FILE_NAME
    with _translated(path), ExitStack() as stack:
        _make_once(path)
        directory = os.open(path.parent, os.O_RDONLY)
        stack.callback(os.close, directory)
        fcntl.flock(directory, fcntl.LOCK_EX)
        now = time.time()
        end = now + overlap.total_seconds()
        old = [
            Key(key.secret, min(end, key.until or end))
            for key in _read(path)
            if key.until is None or key.until > now
        ]
        os.replace(_written(path, (_new_key(), *old)), path)


@contextmanager
def _translated(path: Path) -> Iterator[None]:
    """Raise InvalidSettings where the file cannot be used."""
    try:
        yield
    except OSError as error:
        raise InvalidSettings(
            f"the signing keys in {path} cannot be used: {error.strerror or error}",
            hint="[core] home must be a directory that you can write to",
        ) from None


def _configured(settings: Settings) -> tuple[Key, ...]:
    given = tuple(text.strip() for text in settings.api.signing_key.split(","))
    if any(len(text) < SHORTEST for text in given):
        raise InvalidSettings(
            f"api.signing_key contains a key of less than {SHORTEST} characters, found in "
            f"{settings.origins.get('api.signing_key', 'the settings')}",
            hint="create one with `openssl rand -base64 48`",
        )
    return tuple(Key(text) for text in given)


def _new_key() -> Key:
    return Key(secrets.token_urlsafe(48))


def _make_once(path: Path) -> None:
    """Create the file with a new key, unless it exists or another process creates it first."""
    if path.exists():
        return
    path.parent.mkdir(PRIVATE, parents=True, exist_ok=True)
    written = _written(path, (_new_key(),))
    try:
        with suppress(FileExistsError):
            os.link(written, path)
    finally:
        written.unlink()


def _written(path: Path, keys: tuple[Key, ...]) -> Path:
    """Write the keys to a new file next to `path`, which only its owner can read, and return it."""
    number, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    with os.fdopen(number, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode({"keys": keys}), indent=2) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    return Path(name)


def _mark(path: Path) -> tuple[int, int, int]:
    """Return a value that changes with the content of the file."""
    status = path.stat()
    return status.st_mtime_ns, status.st_ino, status.st_mode


class _Content(msgspec.Struct):
    keys: tuple[Key, ...]


def _read(path: Path) -> tuple[Key, ...]:
    try:
        if path.stat().st_mode & 0o077:
            raise InvalidSettings(
                f"{path} contains the keys that sign tokens, and other users can read it",
                hint=f"run `chmod 600 {path}`; if somebody may have read it, also run `holdfast "
                "auth rotate-key --overlap 0`",
            )
        keys = msgspec.json.decode(path.read_bytes(), type=_Content).keys
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise InvalidSettings(
            f"the signing keys in {path} cannot be read: {error}",
            hint="if the file is damaged, delete it: a new key is created, and new tokens have "
            "to be issued",
        ) from None
    if not keys or any(len(key.secret) < SHORTEST for key in keys):
        raise InvalidSettings(
            f"{path} contains no signing key, or one of less than {SHORTEST} characters",
            hint="delete the file: a new key is created, and new tokens have to be issued",
        )
    return keys
