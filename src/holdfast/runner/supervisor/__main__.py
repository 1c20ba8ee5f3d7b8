"""Entry point of the supervisor process, which a scheduler or triggerer starts."""

import gc
import socket
import sys

from holdfast.environment import hide
from holdfast.monitoring import tracing
from holdfast.monitoring.service_log import logging_to_stderr
from holdfast.runner.supervisor.launcher_link import LauncherLink
from holdfast.settings import load
from holdfast.wire.channel import Channel


def main() -> None:
    hide()
    # First, so that it imports the tasks' modules while this process imports the database's.
    launcher = LauncherLink()
    settings = load()
    with logging_to_stderr(settings.logging):
        tracing.configure(settings.tracing)
        from holdfast.runner.supervisor.supervisor import Supervisor

        Supervisor(settings, Channel(socket.socket(fileno=int(sys.argv[1]))), launcher).run()
    gc.freeze()  # else the interpreter would traverse all objects at exit


if __name__ == "__main__":
    main()
