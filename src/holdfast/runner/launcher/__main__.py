"""Entry point of the launcher process, which a supervisor starts."""

import gc
import socket
import sys

import holdfast.runner.task.child
import holdfast.runner.task.execution
import holdfast.runner.task.loading  # noqa: F401  (so that children need not load it)
from holdfast.runner.launcher.launcher import Launcher

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    Launcher(socket.socket(fileno=int(sys.argv[1]))).run()
