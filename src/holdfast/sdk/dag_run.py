"""Run of a DAG, as its tasks see it in their context."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Self

import msgspec

from holdfast.model.run import Run


@dataclass(frozen=True)
class DagRun:
    """A run of a DAG."""

    dag_id: str
    run_id: str
    run_type: str
    logical_date: datetime | None
    data_interval_start: datetime | None
    data_interval_end: datetime | None
    run_after: datetime
    start_date: datetime | None
    conf: dict[str, Any]

    @classmethod
    def of(cls, run: Run) -> Self:
        return cls(
            dag_id=run.dag_id,
            run_id=run.run_id,
            run_type=str(run.kind),
            logical_date=run.logical_date,
            data_interval_start=run.data_interval_start,
            data_interval_end=run.data_interval_end,
            run_after=run.data_interval_end or run.logical_date or run.created_at,
            start_date=run.started_at,
            conf=msgspec.json.decode(run.conf) or {},
        )
