"""Entry point of the supervisor process, which a scheduler or triggerer starts."""

import gc
import logging
import socket
import sys

from holdfast.errors import HoldfastError
from holdfast.process import hide_this_process
from holdfast.runner.supervisor.launcher_link import LauncherLink
from holdfast.wire.channel import Channel


def main() -> None:
    hide_this_process()
    # First, so that it imports the tasks' modules while this process imports the database's.
    launcher = LauncherLink()
    logging.basicConfig(format="%(name)s: %(message)s", stream=sys.stderr)

    from holdfast.runner.supervisor.supervisor import Supervisor

    try:
        Supervisor(Channel(socket.socket(fileno=int(sys.argv[1]))), launcher).run()
    except HoldfastError as error:
        sys.exit(f"error: {error}")
    gc.freeze()  # else the interpreter would traverse all objects at exit


if __name__ == "__main__":
    main()
