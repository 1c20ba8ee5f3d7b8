"""Route for alerts."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from pydantic import Field

from holdfast import commands as c
from holdfast.model import alert as model
from holdfast.model.run_presentation import of_alert
from holdfast.server.public.caller import CallerDep
from holdfast.server.public.model import Answer
from holdfast.server.public.parameter import Limit, Offset
from holdfast.server.public.route import public_router

router = public_router("Alerts")


class Alert(Answer):
    """An alert, and how far its delivery by one channel is."""

    id: int
    kind: model.AlertKind
    status: model.AlertStatus
    text: str
    raised_at: datetime
    resolved_at: datetime | None
    facts: dict[str, Any] = Field(description="What it is about; the names depend on the kind.")
    channel: model.Channel
    delivered: model.AlertStatus | None = Field(description="The status that was delivered last.")
    tries: int = Field(description="Deliveries begun since the last that succeeded.")
    next_try_at: datetime | None = Field(description="null: nothing is left to deliver.")
    error: str = Field(description="Why the last delivery failed.")


class AlertCollection(Answer):
    """A page of alerts, newest first, with the total number."""

    alerts: list[Alert]
    total_entries: int


@router.get("/alerts")
async def list_alerts(caller: CallerDep, limit: Limit = 100, offset: Offset = 0) -> AlertCollection:
    """List the alerts of the last 30 days, newest first."""
    listing = c.ListAlerts(limit, offset)
    alerts = [Alert(**of_alert(one)) for one in await caller.aexecute(listing)]
    return AlertCollection(alerts=alerts, total_entries=await caller.aexecute(c.Count(listing)))
