"""A server that speaks S3 over HTTP, for the length of a section: the fastest that PyPI has."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

BUCKET = "bench"


@contextmanager
def s3_server(directory: Path) -> Iterator[None]:
    """rclone's, over files, with an empty bucket. What its clients need is in the environment."""
    (directory / "s3" / BUCKET).mkdir(parents=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    os.environ |= {
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
    }
    program = Path(sys.executable).with_name("rclone")
    options = ("--addr", f"127.0.0.1:{port}", "--auth-key", "bench,bench", "--config", "")
    with (
        (directory / "rclone.log").open("w") as log,
        subprocess.Popen(
            [program, "serve", "s3", *options, directory / "s3"], stdout=log, stderr=log
        ) as process,
    ):
        try:
            _wait_for(port)
            yield
        finally:
            process.kill()


def _wait_for(port: int) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)
        else:
            return
