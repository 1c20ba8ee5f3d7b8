"""Hook that kills a process of a run at the call or return of one of Holdfast's functions.

Python imports it in every process that has this directory in PYTHONPATH. RECORD_POINTS names a file
to which each process appends the points that it passes; KILL_AT is the point at which the first
process that reaches it is killed, and KILLED a file that it creates before.
"""

from __future__ import annotations

import inspect
import os
import signal
import sys
import threading
from types import CodeType, FrameType
from typing import Any

FILES = (
    "/holdfast/runner/",
    "/holdfast/server/embedded.py",
    "/holdfast/server/endpoint.py",
    "/holdfast/spark/session/server.py",
    "/holdfast/stores/pipe.py",
    "/holdfast/wire/channel.py",
)
record = os.environ.get("RECORD_POINTS")
kill_at = os.environ.get("KILL_AT")
own = os.getpid()
seen: set[str] = set()
names: dict[CodeType, str] = {}


def kind() -> str:
    if os.getpid() != own:
        return "child"
    command = " ".join(sys.orig_argv)
    for name in ("supervisor", "launcher"):
        if f"holdfast.runner.{name}" in command:
            return name
    return "run" if "holdfast run" in command else "other"


def pass_by(frame: FrameType, event: str, argument: Any) -> None:
    if event not in ("call", "return"):
        return
    code = frame.f_code
    name = names.get(code)
    if name is None:
        name = names[code] = name_of(code)
    if not name:
        return
    point = f"{kind()} {event} {name}"
    if record and point not in seen:
        seen.add(point)
        with open(record, "a") as points:
            points.write(point + "\n")
    if kill_at == point and is_first():
        os.kill(os.getpid(), signal.SIGKILL)
    if event == "call" and kill_at == f"{kind()} half {name}" and is_first():
        send_half(**frame.f_locals)
        os.kill(os.getpid(), signal.SIGKILL)


def name_of(code: CodeType) -> str:
    """Return a function's module and name, or an empty text if no process is to be killed in it."""
    file, name = code.co_filename, code.co_qualname
    if not code.co_flags & inspect.CO_OPTIMIZED or "<" in name:
        return ""  # a module, a class, or a function inside another
    if not any(one in file for one in FILES):
        return ""
    module = file.rpartition("/holdfast/")[2].removesuffix(".py").replace("/", ".")
    return f"{module}.{name}"


def send_half(self: Any, kind: bytes, data: bytes = b"") -> None:
    """Send the first half of the message of the `Channel.send` call."""
    message = self._framed(kind, data)
    self._sending.acquire()  # else another thread might send something after it
    self.sock.send(message[: len(message) // 2])


def is_first() -> bool:
    """Return whether no other process was killed here before."""
    try:
        os.close(os.open(os.environ["KILLED"], os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return False
    return True


if record or kill_at:
    sys.setprofile(pass_by)
    threading.setprofile(pass_by)
