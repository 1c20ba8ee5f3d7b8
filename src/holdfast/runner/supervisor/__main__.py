"""The supervisor process, which a scheduler or triggerer starts."""

import gc
import logging
import signal
import socket
import sys

from holdfast.errors import HoldfastError
from holdfast.process import hide_this_process
from holdfast.runner.supervisor.launcher_link import LauncherLink
from holdfast.wire.channel import Channel


def main() -> None:
    hide_this_process()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal's Ctrl-C is the scheduler's matter
    # First, because it loads what tasks need while this process loads what the database needs.
    launcher = LauncherLink()
    logging.basicConfig(format="%(name)s: %(message)s", stream=sys.stderr)

    from holdfast.runner.supervisor.supervisor import Supervisor

    try:
        Supervisor(Channel(socket.socket(fileno=int(sys.argv[1]))), launcher).run()
    except HoldfastError as error:
        sys.exit(f"error: {error}")
    gc.freeze()  # else the interpreter would look through all objects before it ends


if __name__ == "__main__":
    main()
