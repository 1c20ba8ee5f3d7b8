"""`holdfast server` as a process: workers, stopping, TLS, and errors at the start."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import socket
import sqlite3
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import msgspec
import psutil
import pytest
from servers import Server
from talk import JSON, Answer, ask


@contextmanager
def running(project: Path, *args: str, **environ: str) -> Iterator[tuple[psutil.Popen, str]]:
    """Yield the server with the address that it prints."""
    with (project / "stderr").open("w") as said:
        process = psutil.Popen(
            [sys.executable, "-m", "holdfast", "server", "--port", "0", *args],
            cwd=project,
            env=os.environ | environ,
            stdout=subprocess.PIPE,
            stderr=said,
            text=True,
        )
    try:
        line = process.stdout.readline()
        assert line.startswith("listening on http"), (project / "stderr").read_text()
        yield process, line.strip().rpartition("/")[2]
    finally:
        for one in [*children_of(process), process]:
            with suppress(psutil.NoSuchProcess):
                one.kill()
        process.wait()
        process.stdout.close()


def children_of(process: psutil.Popen) -> list[psutil.Process]:
    """Return the processes that answer requests."""
    found = []
    with suppress(psutil.NoSuchProcess):
        for child in process.children():
            with suppress(psutil.NoSuchProcess):
                if "spawn_main" in " ".join(child.cmdline()):
                    found.append(child)
    return found


def get(address: str, path: str) -> Answer:
    return ask(http.client.HTTPConnection(address, timeout=20), "GET", path, None, {})


def wait_for(what: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it does not come about"
        time.sleep(0.05)


def task_token(project: Path, **environ: str) -> dict[str, str]:
    printed = subprocess.run(
        [
            *(sys.executable, "-m", "holdfast", "auth", "task-token"),
            *("--dag-id", "d", "--run-id", "r", "--task-id", "t"),
        ],
        cwd=project,
        env=os.environ | environ,
        capture_output=True,
        check=True,
    )
    return dict(msgspec.json.decode(printed.stdout))


def put(address: str, token: dict[str, str]) -> Answer:
    headers = JSON | {"Authorization": f"Bearer {token['token']}"}
    path = f"/execution/store/ti/{token['ti_id']}/a"
    connection = http.client.HTTPConnection(address, timeout=30)
    return ask(connection, "PUT", path, b'{"value": 1}', headers)


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_stopped_server_finishes_its_requests(tmp_path: Path, processes: str) -> None:
    token = task_token(tmp_path)
    with running(tmp_path, "--processes", processes) as (server, address):
        database = tmp_path / ".holdfast" / "holdfast.db"
        with closing(sqlite3.connect(database, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            with ThreadPoolExecutor(1) as pool:
                slow = pool.submit(put, address, token)
                time.sleep(0.5)
                server.send_signal(signal.SIGTERM)
                time.sleep(0.7)
                still_running = server.poll() is None
                other.execute("ROLLBACK")
                answer = slow.result()
        status = server.wait(30)

    assert still_running
    assert answer.status == 204
    assert status == 0


@pytest.mark.full
def test_a_server_stops_at_ctrl_c_despite_an_idle_connection(tmp_path: Path) -> None:
    with running(tmp_path) as (server, address):
        idle = http.client.HTTPConnection(address, timeout=10)
        idle.request("GET", "/health")
        assert idle.getresponse().read()

        server.send_signal(signal.SIGINT)
        status = server.wait(20)
        idle.close()

    assert status == 0
    with pytest.raises(ConnectionRefusedError):
        get(address, "/health")


@pytest.mark.parametrize("processes", ["1", "2"])
def test_a_server_ends_with_its_terminal(tmp_path: Path, processes: str) -> None:
    with running(tmp_path, "--processes", processes) as (server, _):
        server.send_signal(signal.SIGHUP)

        assert server.wait(20) == 0


@pytest.mark.full
def test_a_process_that_dies_is_replaced_and_none_outlives_the_first(tmp_path: Path) -> None:
    name = 'holdfast_requests_total{method="GET",route="/health/live",status="200"}'

    with running(tmp_path, "--processes", "2") as (server, address):
        first = children_of(server)
        for _ in range(40):
            assert get(address, "/health/live").status == 200
        first[0].kill()
        wait_for(lambda: len(set(children_of(server)) - {first[0]}) == 2)
        for _ in range(20):
            # A connection that the killed process had accepted is lost with it.
            with suppress(ConnectionResetError, http.client.RemoteDisconnected):
                get(address, "/health/live")
        figures = get(address, "/metrics").body.decode()
        second = children_of(server)
        server.kill()
        server.wait()
        _, left = psutil.wait_procs(second, timeout=20)

    [line] = [line for line in figures.splitlines() if line.startswith(name)]
    assert float(line.rpartition(" ")[2]) >= 59
    assert "holdfast_requests_under_way 1.0" in figures
    assert (len(first), len(second), left) == (2, 2, [])


@pytest.mark.full
def test_a_server_ends_with_the_given_parent_process(tmp_path: Path) -> None:
    code = (
        "import os, subprocess, sys, time;"
        "child = subprocess.Popen([sys.executable, '-m', 'holdfast', 'server', '--port', '0',"
        " '--with-parent', str(os.getpid())], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL);"
        "child.stdout.readline(); print(child.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", code], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    child = psutil.Process(int(parent.stdout.readline()))

    parent.kill()
    parent.wait()
    parent.stdout.close()

    _, alive = psutil.wait_procs([child], timeout=20)
    assert alive == []


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a directory with a self-signed certificate and its key."""
    if not shutil.which("openssl"):
        pytest.skip("openssl is not installed")
    directory = tmp_path_factory.mktemp("tls")
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", "key.pem", "-out", "certificate.pem"),
        ],
        cwd=directory,
        check=True,
        capture_output=True,
    )
    return directory


def test_a_server_with_a_certificate_uses_tls(tmp_path: Path, certificate: Path) -> None:
    for file in certificate.iterdir():
        shutil.copy(file, tmp_path)
    (tmp_path / "holdfast.toml").write_text(
        '[api]\ntls_certificate = "certificate.pem"\ntls_key = "key.pem"\n'
    )
    trust = ssl.create_default_context(cafile=certificate / "certificate.pem")
    token = task_token(tmp_path)

    with running(tmp_path) as (_, address):
        connection = http.client.HTTPSConnection(address, timeout=20, context=trust)
        headers = JSON | {"Authorization": f"Bearer {token['token']}"}
        path = f"/execution/store/ti/{token['ti_id']}/a"
        answer = ask(connection, "PUT", path, b'{"value": 1}', headers)
        large = ask(
            http.client.HTTPSConnection(address, timeout=20, context=trust),
            "PUT",
            path,
            b"x" * 20_000_000,
            headers,
        )
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            get(address, "/health")

    assert answer.status == 204
    assert (large.status, large.reason) == (413, "request_too_large")


def refused(project: Path, *args: str, **environ: str) -> tuple[int, str]:
    """Return the exit status and the messages of a server that does not start."""
    done = subprocess.run(
        [sys.executable, "-m", "holdfast", "server", "--port", "0", *args],
        cwd=project,
        env=os.environ | environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.stdout == ""
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


def test_a_port_in_use_is_an_error(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]

        status, said = refused(tmp_path, "--port", str(port))

    assert status == 2
    assert f"cannot listen on 127.0.0.1:{port}" in said
    assert "--port" in said


@pytest.mark.full
@pytest.mark.parametrize("host", ["no-such-host.invalid", "two..dots", "x" * 64, ""])
def test_an_address_of_another_machine_is_an_error(tmp_path: Path, host: str) -> None:
    status, said = refused(tmp_path, "--host", host)

    assert status == 2
    assert f"cannot listen on {host}:0: " in said


@pytest.mark.full
@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("missing.pem", "key.pem"), "missing.pem is not a readable file"),
        (("certificate.pem", ""), "only one of"),
        (("key.pem", "key.pem"), "cannot be used"),
    ],
)
def test_an_unusable_certificate_is_an_error(
    tmp_path: Path, certificate: Path, names: tuple[str, str], said: str
) -> None:
    paths = [str(certificate / name) if name else "" for name in names]

    status, error = refused(
        tmp_path,
        HOLDFAST__API__TLS_CERTIFICATE=paths[0],
        HOLDFAST__API__TLS_KEY=paths[1],
    )

    assert (status, said in error) == (2, True), error


@pytest.mark.full
def test_a_database_that_is_not_migrated_is_an_error(tmp_path: Path, postgres: Server) -> None:
    status, said = refused(tmp_path, HOLDFAST__DATABASE__URL=postgres.new_database())

    assert status == 1
    assert "holdfast db migrate" in said


@pytest.mark.full
def test_keys_readable_by_others_are_an_error(tmp_path: Path) -> None:
    task_token(tmp_path)
    (tmp_path / ".holdfast" / "signing-keys.json").chmod(0o644)

    status, said = refused(tmp_path)

    assert status == 2
    assert "other users can read it" in said


def test_a_missing_package_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name.partition('.')[0] in ('fastapi', 'jwt'):\n"
        "            raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Missing())\n"
    )

    status, said = refused(tmp_path, PYTHONPATH=str(tmp_path))

    assert status == 1
    assert 'pip install "holdfast-state[server]"' in said
