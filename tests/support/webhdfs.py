"""Slow file system for Spark over HTTP: WebHDFS, backed by a directory."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import parse_qs, unquote, urlsplit

PREFIX = "/webhdfs/v1"
BLOCK = 128 * 2**20
DEFAULTS = {
    "blockSize": BLOCK,
    "bytesPerChecksum": 512,
    "checksumType": 2,
    "encryptDataTransfer": False,
    "fileBufferSize": 4096,
    "keyProviderUri": "",
    "replication": 1,
    "trashInterval": 0,
    "writePacketSize": 65536,
    "defaultStoragePolicyId": 7,
}


class WebHdfs(ThreadingHTTPServer):
    """`before` is called with each path at which a directory is created, or to which something is
    renamed, before that happens."""

    daemon_threads = True

    def __init__(self, directory: Path, before: Callable[[str], None]) -> None:
        super().__init__(("127.0.0.1", 0), _Request)
        self.directory = directory
        self.before = before

    @property
    def url(self) -> str:
        return f"webhdfs://127.0.0.1:{self.server_port}"

    def at(self, path: str) -> Path:
        return self.directory / unquote(path).lstrip("/")


@contextmanager
def web_hdfs(directory: Path, before: Callable[[str], None]) -> Iterator[WebHdfs]:
    with WebHdfs(directory, before) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server
        finally:
            server.shutdown()


class _Request(BaseHTTPRequestHandler):
    server: WebHdfs
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *arguments: object) -> None:
        pass

    def do_GET(self) -> None:
        try:
            if self._operation in ("GETFILESTATUS", "GETFILELINKSTATUS"):
                self._answer({"FileStatus": _status(self._path, "")})
            elif self._operation == "LISTSTATUS":
                found = self._path.iterdir() if self._path.is_dir() else [self._path]
                statuses = [_status(one, one.name) for one in found]
                self._answer({"FileStatuses": {"FileStatus": statuses}})
            elif self._operation == "GETSERVERDEFAULTS":
                self._answer({"FsServerDefaults": DEFAULTS})
            else:
                self._refuse(400, "UnsupportedOperationException", self._operation)
        except FileNotFoundError as error:
            self._refuse(404, "FileNotFoundException", str(error))

    def do_PUT(self) -> None:
        body = self._body()
        if self._operation == "MKDIRS":
            self.server.before(unquote(urlsplit(self.path).path).removeprefix(PREFIX))
            self._path.mkdir(parents=True, exist_ok=True)
            self._answer({"boolean": True})
        elif self._operation == "CREATE" and "data" not in self._query:
            self._reply(307, headers={"Location": f"http://{self._host}{self.path}&data=true"})
        elif self._operation == "CREATE":
            self._path.parent.mkdir(parents=True, exist_ok=True)
            self._path.write_bytes(body)
            self._reply(201)
        elif self._operation == "RENAME":
            [destination] = self._query["destination"]
            self.server.before(destination)
            self._answer({"boolean": _renamed(self._path, self.server.at(destination))})
        else:
            self._refuse(400, "UnsupportedOperationException", self._operation)

    def do_DELETE(self) -> None:
        existed = self._path.exists()
        if self._path.is_dir():
            shutil.rmtree(self._path, ignore_errors=True)
        else:
            self._path.unlink(missing_ok=True)
        self._answer({"boolean": existed})

    @property
    def _query(self) -> dict[str, list[str]]:
        return parse_qs(urlsplit(self.path).query)

    @property
    def _operation(self) -> str:
        return self._query["op"][0].upper()

    @property
    def _path(self) -> Path:
        return self.server.at(urlsplit(self.path).path.removeprefix(PREFIX))

    @property
    def _host(self) -> str:
        return f"127.0.0.1:{self.server.server_port}"

    def _body(self) -> bytes:
        if self.headers.get("Transfer-Encoding") != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        while size := int(self.rfile.readline(), 16):
            parts.append(self.rfile.read(size))
            self.rfile.readline()
        self.rfile.readline()
        return b"".join(parts)

    def _answer(self, content: object) -> None:
        self._reply(200, json.dumps(content).encode())

    def _refuse(self, status: int, kind: str, message: str) -> None:
        remote = {"exception": kind, "javaClassName": f"java.io.{kind}", "message": message}
        self._reply(status, json.dumps({"RemoteException": remote}).encode())

    def _reply(
        self, status: int, content: bytes = b"", headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, text in (headers or {}).items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _renamed(source: Path, destination: Path) -> bool:
    if not source.exists() or not destination.parent.is_dir():
        return False
    source.rename(destination)
    return True


def _status(path: Path, suffix: str) -> dict[str, object]:
    stat = path.stat()
    return {
        "accessTime": int(stat.st_atime * 1000),
        "blockSize": BLOCK,
        "group": "staff",
        "length": 0 if path.is_dir() else stat.st_size,
        "modificationTime": int(stat.st_mtime * 1000),
        "owner": "spark",
        "pathSuffix": suffix,
        "permission": "755",
        "replication": 1,
        "type": "DIRECTORY" if path.is_dir() else "FILE",
    }
