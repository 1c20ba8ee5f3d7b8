"""Delivery of alerts to a webhook and to a callback."""

from __future__ import annotations

import os
import signal
import sys
from http import HTTPStatus
from subprocess import Popen, TimeoutExpired
from tempfile import TemporaryFile
from threading import Thread
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import HTTPRedirectHandler, Request, build_opener

import msgspec

from holdfast.environment import public_environment
from holdfast.errors import AlertNotDelivered
from holdfast.model.alert import Channel
from holdfast.portable.identifier import one_line
from holdfast.process import signal_name
from holdfast.settings import Settings
from holdfast.version import __version__

WEBHOOK_TIMEOUT: Final = 10.0
CALLBACK_TIMEOUT: Final = 60.0
_LONGEST_REASON: Final = 500


def configured_channels(settings: Settings) -> tuple[Channel, ...]:
    """Return the channels that the settings have; usually none."""
    given = {
        Channel.WEBHOOK: settings.alerts.webhook_url,
        Channel.CALLBACK: settings.alerts.callback,
    }
    return tuple(channel for channel, value in given.items() if value)


def deliver(settings: Settings, channel: Channel, document: dict[str, Any]) -> None:
    """Deliver a document once. Raise AlertNotDelivered."""
    body = msgspec.json.encode(document)
    if channel is Channel.WEBHOOK:
        _post(settings.alerts.webhook_url, body)
    else:
        _call(settings, body)


class _NoRedirects(HTTPRedirectHandler):
    """A redirected POST would become a GET, whose success means nothing."""

    def redirect_request(self, *args: Any, **kwargs: Any) -> None:
        return None


_open = build_opener(_NoRedirects).open


def _post(url: str, body: bytes) -> None:
    """Send the body to the webhook. Its URL is a secret, so no message quotes it or the response,
    which may repeat it."""
    why: list[str] = []
    # In a thread, because the timeout of a connection is that of each single read.
    sending = Thread(target=lambda: why.append(_send(url, body)), daemon=True)
    sending.start()
    sending.join(WEBHOOK_TIMEOUT)
    if not why:
        why.append(f"it took longer than {WEBHOOK_TIMEOUT:.0f} s")
    if why[0]:
        raise AlertNotDelivered(
            f"the webhook did not take the alert: {why[0]}",
            hint="check [alerts] webhook_url, and try `holdfast alerts test`",
        )


def _send(url: str, body: bytes) -> str:
    """Send the body; return why it was not taken, or an empty text."""
    headers = {"Content-Type": "application/json", "User-Agent": f"holdfast/{__version__}"}
    request = Request(url, body, headers, method="POST")  # noqa: S310  (the setting is checked)
    try:
        with _open(request, timeout=WEBHOOK_TIMEOUT):
            return ""
    except HTTPError as error:
        error.close()
        names = {status.value: status.phrase for status in HTTPStatus}
        return f"it responded {error.code} {names.get(error.code, '')}".rstrip()
    except OSError as error:
        reason = getattr(error, "reason", error)
        return one_line(f"{type(reason).__name__}: {reason}".replace(url, "…"))
    except Exception as error:
        return type(error).__name__


def _call(settings: Settings, body: bytes) -> None:
    """Call the callback in a process of its own, which imports it from the directory of the
    settings or from the installed packages."""
    try:
        why = _run_callback(settings, body)
    except OSError as error:
        why = f"its process could not be started: {error}"
    if why:
        raise AlertNotDelivered(
            f"the callback {settings.alerts.callback} failed: {why}",
            hint="check [alerts] callback, and try `holdfast alerts test`",
        )


def _run_callback(settings: Settings, body: bytes) -> str:
    """Run the process to its end; return why it failed, or an empty text."""
    command = [sys.executable, "-m", "holdfast.actions.alert_callback", settings.alerts.callback]
    with TemporaryFile() as given, TemporaryFile() as output:
        given.write(body)
        given.seek(0)
        process = Popen(
            command,
            cwd=settings.directory,
            env=public_environment(),
            stdin=given,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        try:
            status = process.wait(CALLBACK_TIMEOUT)
        except TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            why = f"it took longer than {CALLBACK_TIMEOUT:.0f} s"
        else:
            if status == 0:
                return ""
            why = f"exit status {status}" if status > 0 else signal_name(-status)
        output.seek(max(0, output.seek(0, os.SEEK_END) - _LONGEST_REASON))
        lines = output.read().decode(errors="replace").strip().splitlines()
        return f"{why}: {one_line(lines[-1])}" if lines else why
