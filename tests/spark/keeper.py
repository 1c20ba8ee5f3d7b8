"""Process that keeps a Spark server, as the runner's does: `python keeper.py STARTUP`."""

from __future__ import annotations

import os
import signal
import sys
from threading import Thread

import msgspec

from holdfast.errors import SparkUnavailable
from holdfast.spark.session.address import SparkAddress, SparkStartup
from holdfast.spark.session.server import serve


def tell(address: SparkAddress) -> None:
    print(msgspec.json.encode(address).decode(), flush=True)


def end_with_the_tests() -> None:
    """End when the test process closes its end of the input."""
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    Thread(target=end_with_the_tests, daemon=True).start()
    try:
        sys.exit(serve(msgspec.json.decode(sys.argv[1], type=SparkStartup), tell))
    except SparkUnavailable as error:
        sys.exit(str(error))
