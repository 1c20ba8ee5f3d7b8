"""Delivery of alerts to a real webhook and a real callback."""

from __future__ import annotations

import json
import os
import shutil
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from receiver import Receiver, receiving

from holdfast.actions import alerts
from holdfast.actions.alerts import configured_channels, deliver
from holdfast.errors import AlertNotDelivered, InvalidSettings
from holdfast.model.alert import Channel
from holdfast.settings import Settings, load

DOCUMENT = {"id": 7, "text": "run monday of etl failed"}


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as receiver:
        yield receiver


def with_webhook(url: str) -> Settings:
    return load(environ={"HOLDFAST__ALERTS__WEBHOOK_URL": url})


def with_callback(directory: Path, body: str) -> Settings:
    (directory / "notify.py").write_text(f"import json, os, sys, time\n{body}\n")
    return load(directory, environ={"HOLDFAST__ALERTS__CALLBACK": "notify.page"})


def test_there_is_no_channel_by_default() -> None:
    assert configured_channels(Settings()) == ()


def test_a_webhook_gets_the_document_as_json(receiver: Receiver) -> None:
    deliver(with_webhook(receiver.url), Channel.WEBHOOK, DOCUMENT)

    assert receiver.taken == [DOCUMENT]
    assert receiver.headers[0]["Content-Type"] == "application/json"


@pytest.mark.parametrize("status", [302, 307, 404, 500])
def test_any_other_response_than_success_is_an_error_without_the_url(
    receiver: Receiver, status: int
) -> None:
    receiver.planned = [status]

    with pytest.raises(AlertNotDelivered, match=str(status)) as refused:
        deliver(with_webhook(receiver.url), Channel.WEBHOOK, DOCUMENT)

    assert "s3cret" not in str(refused.value)
    assert "\n" not in refused.value.message


def test_a_webhook_that_cannot_be_reached_is_an_error_without_the_url() -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{unused.getsockname()[1]}/s3cret"

        with pytest.raises(AlertNotDelivered, match="refused") as failed:
            deliver(with_webhook(url), Channel.WEBHOOK, DOCUMENT)

    assert "s3cret" not in str(failed.value)


def test_a_webhook_that_does_not_respond_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(alerts, "WEBHOOK_TIMEOUT", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}/s3cret"

        with pytest.raises(AlertNotDelivered, match="timed out|took longer"):
            deliver(with_webhook(url), Channel.WEBHOOK, DOCUMENT)


def test_a_webhook_that_responds_byte_by_byte_is_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(alerts, "WEBHOOK_TIMEOUT", 0.5)
    began = time.monotonic()
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        pool.submit(_drip, server, 3.0)

        with pytest.raises(AlertNotDelivered, match="took longer"):
            deliver(
                with_webhook(f"http://127.0.0.1:{server.getsockname()[1]}/"),
                Channel.WEBHOOK,
                DOCUMENT,
            )
        took = time.monotonic() - began

    assert took < 2.5


def _drip(server: socket.socket, seconds: float) -> None:
    connection, _ = server.accept()
    with connection:
        connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
        for _ in range(int(seconds / 0.1)):
            connection.sendall(b"x")
            time.sleep(0.1)


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 500 no\r\nContent-Length: 100\r\n\r\nhalf",
        b"HTTP/1.1 500 no\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nhalf",
        b"HTTP/1.1 404 no\r\n\r\nPOST /hooks/s3cret?key=s3cret",
        b"nonsense\r\n\r\n",
        b"",
    ],
)
def test_a_webhook_that_responds_badly_is_an_error_without_the_url(
    monkeypatch: pytest.MonkeyPatch, response: bytes
) -> None:
    monkeypatch.setattr(alerts, "WEBHOOK_TIMEOUT", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as server, ThreadPoolExecutor(1) as pool:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/hooks/s3cret?key=s3cret"
        answering = pool.submit(_answer, server, response)

        with pytest.raises(AlertNotDelivered) as failed:
            deliver(with_webhook(url), Channel.WEBHOOK, DOCUMENT)
        answering.result()

    assert "s3cret" not in str(failed.value)


def _answer(server: socket.socket, response: bytes) -> None:
    connection, _ = server.accept()
    with connection:
        connection.recv(2**16)
        connection.sendall(response)
        connection.shutdown(socket.SHUT_WR)


@pytest.mark.parametrize(
    "url", ["ftp://host/x", "http://", "http://h/a b", "http://:p@h/", "http://h:p/", "x\n"]
)
def test_a_url_that_cannot_be_a_webhook_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(InvalidSettings, match="alerts.webhook_url may not be \\*\\*\\*"):
        with_webhook(url)


def test_a_callback_whose_directory_is_gone_is_an_error(tmp_path: Path) -> None:
    directory = tmp_path / "project"
    directory.mkdir()
    settings = with_callback(directory, "def page(alert): pass")
    shutil.rmtree(directory)

    with pytest.raises(AlertNotDelivered, match="could not be started"):
        deliver(settings, Channel.CALLBACK, DOCUMENT)


@pytest.mark.parametrize("kind", ["def", "async def"])
def test_a_callback_is_called_in_another_process(tmp_path: Path, kind: str) -> None:
    body = f"{kind} page(alert):\n    json.dump([alert, os.getpid()], open('called', 'w'))"

    deliver(with_callback(tmp_path, body), Channel.CALLBACK, DOCUMENT)

    document, pid = json.loads((tmp_path / "called").read_text())
    assert document == DOCUMENT
    assert pid != os.getpid()


def test_a_callback_has_no_settings_and_credentials_in_its_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOLDFAST__API__SIGNING_KEY", "PGPASSWORD"):
        monkeypatch.setenv(name, "s3cret")
    body = "def page(alert): open('environ', 'w').write(open('/proc/self/environ').read())"

    deliver(with_callback(tmp_path, body), Channel.CALLBACK, DOCUMENT)

    assert "s3cret" not in (tmp_path / "environ").read_text()


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("def page(alert): raise ValueError('no pager')", "ValueError: no pager"),
        ("def page(alert): os.kill(os.getpid(), 9)", "SIGKILL"),
        ("def page(alert): sys.exit(3)", "exit status 3"),
        ("def phone(alert): pass", "AttributeError"),
        ("import no_such_module", "ModuleNotFoundError"),
    ],
)
def test_a_callback_that_fails_is_an_error_with_its_reason(
    tmp_path: Path, body: str, why: str
) -> None:
    with pytest.raises(AlertNotDelivered, match=why):
        deliver(with_callback(tmp_path, body), Channel.CALLBACK, DOCUMENT)


def test_a_callback_that_hangs_is_killed_with_what_it_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alerts, "CALLBACK_TIMEOUT", 2.0)
    body = (
        "def page(alert):\n"
        "    if not os.fork(): open('child', 'w').write(str(os.getpid()))\n"
        "    time.sleep(60)"
    )

    with pytest.raises(AlertNotDelivered, match="longer than 2 s"):
        deliver(with_callback(tmp_path, body), Channel.CALLBACK, DOCUMENT)

    assert _ends(int((tmp_path / "child").read_text()))


def test_a_process_that_a_callback_leaves_behind_does_not_delay_it(tmp_path: Path) -> None:
    body = "def page(alert):\n    if not os.fork(): time.sleep(30)"
    settings = with_callback(tmp_path, body)
    began = time.monotonic()

    deliver(settings, Channel.CALLBACK, DOCUMENT)

    assert time.monotonic() - began < 20


def _ends(pid: int) -> bool:
    for _ in range(100):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
        time.sleep(0.05)
    return False
