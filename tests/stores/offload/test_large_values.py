"""Memory use of large values: written and read without a second copy."""

from __future__ import annotations

import subprocess
import sys

import pytest

SIZE_MB = 64
SCRIPT = r"""
import re, sys
from holdfast.sdk.state import ObjectStoreBackend, TaskScope
from holdfast.settings import ObjectStore

backend = ObjectStoreBackend(ObjectStore(url=sys.argv[1], compression=sys.argv[2]))
scope, size = TaskScope("d", "r", "t"), int(sys.argv[4]) * 2**20

def peak():  # not getrusage: its peak is also that of the process that started this one
    return int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]) * 1024

warm = backend.reference_for(scope, "warm", b"1")
backend.put(warm, scope, "warm", b"1")
backend.fetch(warm)
before = peak()
if sys.argv[3] == "write":
    content = b"0123456789abcdef" * (size // 16)
    reference = backend.reference_for(scope, "k", content)
    backend.put(reference, scope, "k", content)
else:
    [reference] = [o.reference for o in backend.list_objects("task/d/r/t/-1/k")]
    content = backend.fetch(reference)
    assert len(content) == size
print((peak() - before) / size)
"""


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="the peak is read from /proc")
@pytest.mark.parametrize(
    ("url", "compression"), [("file", "zstd"), ("s3", "none")], indirect=["url"]
)
def test_memory_holds_one_copy_of_a_large_value(url: str, compression: str) -> None:
    for doing in ("write", "read"):
        command = [sys.executable, "-c", SCRIPT, url, compression, doing, str(SIZE_MB)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)

        assert done.returncode == 0, done.stderr
        assert 0.9 < float(done.stdout) < 1.4, doing
