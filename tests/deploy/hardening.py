"""Runs a command under the restrictions of a systemd unit, as far as a test can apply them.

    python hardening.py UNIT WRITABLE COMMAND …

All file systems but WRITABLE, /dev, /proc and the directories of temporary files are read-only
(ProtectSystem=strict). There are no capabilities (CapabilityBoundingSet=) and no new privileges.
The system calls and address families are those that the unit allows. Root has to start it.
"""

from __future__ import annotations

import ctypes
import errno
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

from artefacts import ROOT, unit

ALLOW, FAIL = 0x7FFF0000, 0x00050000 | errno.EPERM
EQUAL = 4


class Comparison(ctypes.Structure):
    """`struct scmp_arg_cmp` of libseccomp."""

    _fields_ = [
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("datum_a", ctypes.c_uint64),
        ("datum_b", ctypes.c_uint64),
    ]


def calls(group: str) -> set[str]:
    """Return the system calls of a group of systemd."""
    shown = subprocess.run(
        ["systemd-analyze", "syscall-filter", group], capture_output=True, text=True, check=True
    )
    words = [line.strip() for line in shown.stdout.splitlines()[1:] if "#" not in line]
    nested = [calls(word) for word in words if word.startswith("@")]
    return {word for word in words if word and not word.startswith("@")}.union(*nested)


def filter_calls(allowed: set[str], families: set[int]) -> None:
    """Let every other system call, and sockets of other families, fail with EPERM."""
    library = ctypes.CDLL("libseccomp.so.2")
    library.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(library.seccomp_init(ctypes.c_uint32(FAIL)))
    add = library.seccomp_rule_add_array
    action = ctypes.c_uint32(ALLOW)
    for name in allowed - {"socket"}:
        number = library.seccomp_syscall_resolve_name(name.encode())
        if number >= 0:
            assert add(context, action, number, 0, None) == 0, name
    number = library.seccomp_syscall_resolve_name(b"socket")
    for family in families:
        comparison = Comparison(0, EQUAL, family, 0)
        assert add(context, action, number, 1, ctypes.byref(comparison)) == 0
    assert library.seccomp_load(context) == 0


def mount_read_only(writable: Path) -> None:
    """Make all mounts but some read-only, in this process's own mount namespace."""
    subprocess.run(["mount", "--bind", writable, writable], check=True)
    spared = ("/dev", "/proc", "/sys", str(writable))
    temporary = (tempfile.gettempdir(),)
    for line in Path("/proc/self/mountinfo").read_text().splitlines():
        point = line.split()[4]
        if not point.startswith(spared) and point not in temporary:
            subprocess.run(
                ["mount", "-o", "remount,bind,ro", point], check=False, capture_output=True
            )
    assert not os.access(ROOT if not str(ROOT).startswith(temporary) else "/usr", os.W_OK)


def main() -> None:
    path, writable, *command = sys.argv[1:]
    if os.environ.pop("HARDENED", "") == "":
        mount_read_only(Path(writable))
        os.environ["HARDENED"] = "mounts"
        again = [sys.executable, *sys.argv]
        dropped = ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
        os.execvp("setpriv", ["setpriv", *dropped, *again])
    options = unit(Path(path)).options
    families = {int(getattr(socket, name)) for name in options["RestrictAddressFamilies"].split()}
    allowed = calls(options["SystemCallFilter"])
    os.umask(int(options["UMask"], 8))
    os.chdir(writable)
    filter_calls(allowed, families)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
