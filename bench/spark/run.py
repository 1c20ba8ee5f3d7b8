"""What all parts of a run share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from bench.report import Report


@dataclass(frozen=True)
class Run:
    directory: Path
    """Scratch, gone at the end."""
    report: Report
