"""Entry point of the launcher process, which a supervisor starts."""

import gc
import socket
import sys

from holdfast.runner.launcher.launcher import Launcher

# Loaded here, so that children need not load them.
from holdfast.runner.task import child, dag_import, execution  # noqa: F401

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    Launcher(socket.socket(fileno=int(sys.argv[1]))).run()
