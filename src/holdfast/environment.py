"""The environment of the processes that Holdfast starts.

A new process can be read by others of the same user, such as tasks, until it has hidden itself. So
settings and credentials are not in the environment that it starts with: it receives them through a
socket, once it is hidden.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, Final

import msgspec

from holdfast.errors import InvalidSettings
from holdfast.process import hide_this_process
from holdfast.settings import VARIABLE_PREFIX

WITHHELD: Final = frozenset(
    {
        "HOLDFAST_TOKEN",
        *("PGPASSWORD", "PGPASSFILE", "PGSERVICE", "PGSERVICEFILE", "MYSQL_PWD"),
    }
)
"""Credentials of the user who started the runner, for a Holdfast server or its database."""
SOCKET: Final = "HOLDFAST_ENVIRONMENT_SOCKET"
"""Environment variable with the file descriptor of the socket."""


def public_environment() -> dict[str, str]:
    """Return the environment of this process without settings and credentials."""
    return {name: text for name, text in os.environ.items() if not _is_private(name)}


def private_environment() -> dict[str, str]:
    """Return the settings and credentials in the environment of this process."""
    return {name: text for name, text in os.environ.items() if _is_private(name)}


def start_hidden(
    command: Sequence[str],
    *,
    without: Collection[str] = (),
    pass_fds: Sequence[int] = (),
    **options: Any,
) -> subprocess.Popen[bytes]:
    """Start a process of Holdfast that calls `hide`, with the environment of this one."""
    private = private_environment().items()
    given = {os.fsencode(name): os.fsencode(text) for name, text in private if name not in without}
    message = msgspec.msgpack.encode(given)
    ours, its = socket.socketpair()
    with ours:
        with its:
            environ = public_environment() | {SOCKET: str(its.fileno())}
            fds = (*pass_fds, its.fileno())
            started = subprocess.Popen(command, env=environ, pass_fds=fds, **options)
        with suppress(OSError):  # it has died, which its parent notices
            ours.sendall(message)
    return started


def hide() -> None:
    """Hide this process from others of the user, then take over what `start_hidden` passes."""
    hide_this_process()
    if not (number := os.environ.pop(SOCKET, "")):
        return
    try:
        with socket.socket(fileno=int(number)) as given, given.makefile("rb") as stream:
            sent = msgspec.msgpack.decode(stream.read(), type=dict[bytes, bytes])
    except (OSError, ValueError):
        raise InvalidSettings(
            f"the variable {SOCKET} is {number!r}, which is no socket",
            hint="only Holdfast sets it, for processes that it starts; unset it",
        ) from None
    os.environb.update(sent)


def _is_private(name: str) -> bool:
    return name.startswith(VARIABLE_PREFIX) or name in WITHHELD
