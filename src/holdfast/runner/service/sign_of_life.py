"""Signs of life that a scheduler or triggerer reports to the store, with its figures."""

from __future__ import annotations

import logging
import time
from typing import Final

import msgspec

from holdfast import commands as c
from holdfast.errors import HoldfastError
from holdfast.model.figures import Figures
from holdfast.model.service import ServiceKind
from holdfast.process import this_process
from holdfast.runner.protocol.parameters import LEASE
from holdfast.store import Store

INTERVAL: Final = 5.0
"""Seconds between two signs."""


class SignOfLife:
    """The signs of life of this process. Its main loop calls `tick`: one that hangs gives none."""

    def __init__(self, store: Store, kind: ServiceKind, figures: Figures) -> None:
        self._store = store
        self._kind = kind
        self._figures = figures
        self._reported = b""
        """The figures in the store, encoded."""
        self._first = True
        self._next = 0.0
        self._answered = False
        """False after a sign that the store has not taken."""

    def tick(self) -> None:
        """Report a sign of life if one is due."""
        now = time.monotonic()
        if now < self._next:
            return
        encoded = msgspec.json.encode(self._figures)
        sign = c.ReportService(
            process=this_process(),
            kind=self._kind,
            lease=LEASE,
            first=self._first,
            figures=self._figures if encoded != self._reported else None,
        )
        self._answered = False
        known = self._store.execute(sign)
        self._answered = True
        if known:
            self._first, self._reported, self._next = False, encoded, now + INTERVAL
        else:  # it was suspended for so long that its figures count as those of an ended one
            self._figures.series.clear()
            self._first, self._reported = True, b""

    def end(self) -> None:
        """Report that this process ends cleanly. A store that is unavailable is not waited for."""
        if not self._answered:
            return
        try:
            self._store.execute(c.EndService(this_process(), self._figures))
        except HoldfastError as error:
            name = f"holdfast.{self._kind}"
            logging.getLogger(name).warning("the stop was not recorded: %s", error.message)
