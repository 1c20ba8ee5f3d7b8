"""`holdfast alerts`: what was reported to the webhook and the callback."""

from __future__ import annotations

import socket
from datetime import UTC, datetime

import click

from holdfast import commands as c
from holdfast.actions.alerts import configured_channels, deliver
from holdfast.cli.opening import open_store
from holdfast.cli.output import json_option, print_document, print_table, say, when
from holdfast.cli.parameter import limit_option
from holdfast.errors import AlertNotDelivered, NotFound
from holdfast.model.alert import Alert
from holdfast.model.run_presentation import of_alert
from holdfast.settings import load


@click.group("alerts")
def command() -> None:
    """List alerts, and try their delivery."""


@command.command("list")
@limit_option
@json_option
def list_alerts(limit: int, as_json: bool) -> None:
    """List the alerts of the last 30 days, newest first."""
    with open_store(load()) as store:
        listing = c.ListAlerts(limit)
        alerts = store.execute(listing)
        total = store.execute(c.Count(listing))
    if as_json:
        print_document({"alerts": [of_alert(one) for one in alerts], "total_entries": total})
        return
    if not alerts:
        say("There are no alerts.")
        return
    print_table(
        ("alert", "channel", "raised", "status", "delivery", "text"),
        [
            (
                *(str(one.id), one.channel, when(one.raised_at), one.status),
                *(delivery(one), of_alert(one)["text"]),
            )
            for one in alerts
        ],
    )


@command.command("test")
def test() -> None:
    """Send a test alert from here to the webhook and to the callback that are configured."""
    settings = load()
    channels = configured_channels(settings)
    if not channels:
        raise NotFound(
            "alerts have no receiver", hint="set [alerts] webhook_url, or [alerts] callback"
        )
    now = datetime.now(UTC)
    document = {
        "id": 0,
        "kind": "test",
        "status": "firing",
        "text": f"test alert from {socket.gethostname()}",
        "raised_at": now,
        "resolved_at": None,
    }
    failed = []
    for channel in channels:
        try:
            deliver(settings, channel, document)
            say(f"The {channel} has taken a test alert.")
        except AlertNotDelivered as error:
            failed.append(error)
    if failed:
        raise AlertNotDelivered("; ".join(one.message for one in failed), hint=failed[0].hint)


def delivery(alert: Alert) -> str:
    """Return how far the delivery of an alert is."""
    if alert.next_try_at is None:
        return f"given up: {alert.error}" if alert.error else "delivered"
    return f"failing: {alert.error}" if alert.error else "waiting"
