"""Entry point of the launcher process, which a supervisor starts."""

import gc
import socket
import sys

from holdfast.runner.launcher.launcher import Launcher

if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    Launcher(socket.socket(fileno=int(sys.argv[1]))).run()
