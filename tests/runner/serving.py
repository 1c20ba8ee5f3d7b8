"""`holdfast server` for a project."""

from __future__ import annotations

import subprocess
import sys

from project import Project


class Served:
    """Server of a project, which may be killed and restarted at its address."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._file = project.path("server.out").open("a")
        self._start(port=0)

    def _start(self, port: int) -> None:
        arguments = [sys.executable, "-m", "holdfast", "server", "--port", str(port)]
        self.process = subprocess.Popen(
            arguments,
            cwd=self._project.directory,
            env=self._project.environ | {"HOLDFAST__API__ACCESS_LOG": "false"},
            stdout=subprocess.PIPE,
            stderr=self._file,
            text=True,
        )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip().removeprefix("listening on ")
        self.port = int(self.url.rpartition(":")[2])

    def kill(self) -> None:
        self.process.kill()
        self._end()

    def restart(self) -> None:
        self._start(self.port)

    def stop(self) -> int:
        self.process.terminate()
        return self._end()

    def close(self) -> None:
        """Stop it, if it has not been."""
        assert self.process.poll() is not None or self.stop() == 0
        self._file.close()

    def _end(self) -> int:
        assert self.process.stdout is not None
        self.process.stdout.close()
        return self.process.wait(timeout=60)
