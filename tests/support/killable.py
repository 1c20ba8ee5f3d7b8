"""Database server that can be stopped or killed, and restarted."""

from __future__ import annotations

import signal
import subprocess
import time
from contextlib import suppress
from pathlib import Path

import psutil
import sqlalchemy as sa
from servers import Server

_GOOD_END = {"postgresql": signal.SIGINT, "mysql": signal.SIGTERM}


class KillableServer:
    """Server that was started for the test, identified by its process id."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self._engine = sa.create_engine(server.url, poolclass=sa.NullPool)
        self._process: psutil.Process = psutil.Process(self._pid())
        self._command = self._process.cmdline()
        self._user = self._process.username()

    def _pid(self) -> int:
        if self.server.url.get_backend_name() == "mysql":
            return int(Path(self._ask("SELECT @@pid_file")).read_text())
        file = Path(self._ask("SHOW data_directory"), "postmaster.pid")
        return int(file.read_text().split()[0])

    def _ask(self, question: str) -> str:
        with self._engine.connect() as connection:
            return str(connection.exec_driver_sql(question).scalar())

    def kill(self) -> None:
        """Kill each of its processes with SIGKILL."""
        with suppress(psutil.NoSuchProcess):
            everyone = self._everyone()
            for process in everyone:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(everyone)

    def stop(self) -> None:
        """Stop it cleanly, as for a restart by its administrator, which disconnects clients."""
        self._process.send_signal(_GOOD_END[self.server.url.get_backend_name()])
        self._process.wait()

    def hang(self) -> None:
        """Let it hold its connections, and answer nothing."""
        for process in self._everyone():
            process.suspend()

    def go_on(self) -> None:
        for process in self._everyone():
            process.resume()

    def _everyone(self) -> list[psutil.Process]:
        return [self._process, *self._process.children(recursive=True)]

    def start(self) -> None:
        """Start it as it was started first, and wait until it answers."""
        self._process = psutil.Popen(
            self._command, user=self._user, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 60
        while True:
            try:
                self._ask("SELECT 1")
            except sa.exc.OperationalError:
                assert self._process.is_running(), "the server does not come back"
                assert time.monotonic() < deadline, "the server does not answer"
                time.sleep(0.05)
            else:
                return
