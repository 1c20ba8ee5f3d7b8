"""Signs of life of schedulers and triggerers, and their figures."""

from __future__ import annotations

from datetime import timedelta

from holdfast.commands.base import Category, Command
from holdfast.model.figures import Figures
from holdfast.model.run import Process
from holdfast.model.service import Service, ServiceKind


class ReportService(Command[bool], frozen=True, kw_only=True):
    """Record a sign of life of a process, which is alive until the lease has passed.

    Return False, and record nothing, if it is not the `first` and the store has given the process
    up for lost: it then begins anew, with figures of 0. The first one of any process has the store
    give up those that have not been seen for a day.
    """

    process: Process
    kind: ServiceKind
    lease: timedelta
    first: bool = False
    figures: Figures | None = None
    """All that it has counted; None: as in its last report."""


class EndService(Command[None], frozen=True):
    """Record that a process ends cleanly, with its last figures."""

    process: Process
    figures: Figures


class ListServices(Command[tuple[Service, ...]], frozen=True):
    """List the services that have not ended cleanly, the one that was seen last first."""

    category = Category.READS


class SumFigures(Command[Figures], frozen=True):
    """Return the sum of the figures of all services, ended ones included. It never becomes less."""

    category = Category.READS
