"""Airflow's `MetastoreBackend`, run by the Python of Airflow's own environment.

Reads one JSON request a line, and answers each with the seconds that it took.
"""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import json
import sys
import time
from datetime import UTC, datetime, timedelta

from airflow._shared.state import TaskScope
from airflow.models.dagrun import DagRun
from airflow.state.metastore import MetastoreBackend
from airflow.utils.session import create_session
from sqlalchemy import text

from airflow import settings

SCOPE = TaskScope("orders", "scheduled__2026-01-01", "load")

LOAD = text("""
    INSERT INTO task_state_store
        (dag_run_id, dag_id, run_id, task_id, map_index, key, value, updated_at, expires_at)
    SELECT dag_run.id, dag_id, run_id, 'mapped', row / 5, 'key_' || row % 5,
        repeat('v', 50 + row % 151), now(),
        now() + CASE row % 2 WHEN 0 THEN -1 ELSE 30 END * interval '1 day'
    FROM dag_run, generate_series(0, :rows - 1) AS row
""")


class Contender:
    def __init__(self) -> None:
        self._backend = MetastoreBackend()
        self._done = 0
        with create_session() as session:
            session.add(DagRun(dag_id=SCOPE.dag_id, run_id=SCOPE.run_id, run_type="manual"))

    def start(self, keys: list[str], texts: list[str]) -> None:
        self._keys = keys
        self._texts = texts
        self.set(len(keys))  # so that every key is there to be read

    def set(self, times: int) -> None:
        for number in self._numbers(times):
            expires_at = datetime.now(UTC) + timedelta(days=30)
            self._backend.set(SCOPE, self._keys[number], self._texts[number], expires_at=expires_at)

    def get(self, times: int) -> None:
        for number in self._numbers(times):
            assert self._backend.get(SCOPE, self._keys[number]) is not None

    def load(self, rows: int) -> None:
        """Fill the table, half of it expired; PostgreSQL only."""
        with create_session() as session:
            session.execute(LOAD, {"rows": rows})
        with settings.engine.connect().execution_options(isolation_level="AUTOCOMMIT") as driver:
            driver.execute(text("VACUUM ANALYZE task_state_store"))
            driver.execute(text("CHECKPOINT"))

    def cleanup(self) -> None:
        self._backend.cleanup()

    def _numbers(self, times: int) -> list[int]:
        self._done += times
        return [number % len(self._keys) for number in range(self._done - times, self._done)]


def main() -> None:
    # What Airflow prints must not get between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    contender = Contender()
    for line in sys.stdin:
        request = json.loads(line)
        work = getattr(contender, request.pop("do"))
        start = time.perf_counter()
        work(**request)
        print(time.perf_counter() - start, file=answers, flush=True)


if __name__ == "__main__":
    main()
