"""Airflow's `MetastoreBackend`, run by the Python of Airflow's own environment.

Reads one JSON request a line, and answers each with one: how many seconds it took.
"""

from __future__ import annotations

import json
import sys
import time
from datetime import datetime, timedelta, timezone


def main() -> None:
    # What Airflow prints must not get between the answers.
    answers, sys.stdout = sys.stdout, sys.stderr
    import airflow.settings

    airflow.settings.initialize()
    contender = Contender(json.loads(sys.stdin.readline()))
    for line in sys.stdin:
        request = json.loads(line)
        work = getattr(contender, request["do"])
        start = time.perf_counter()
        work(request["times"])
        print(json.dumps(time.perf_counter() - start), file=answers, flush=True)


class Contender:
    def __init__(self, workload: dict[str, list[str]]) -> None:
        from airflow._shared.state import TaskScope
        from airflow.models.dagrun import DagRun
        from airflow.state.metastore import MetastoreBackend
        from airflow.utils.session import create_session

        self._keys = workload["keys"]
        self._texts = workload["texts"]
        self._backend = MetastoreBackend()
        self._scope = TaskScope("orders", "scheduled__2026-01-01", "load")
        self._done = 0
        with create_session() as session:
            session.add(DagRun(dag_id=self._scope.dag_id, run_id=self._scope.run_id, run_type="manual"))

    def set(self, times: int) -> None:
        for _ in range(times):
            key, text = self._next()
            expires_at = datetime.now(timezone.utc) + timedelta(days=30)
            self._backend.set(self._scope, key, text, expires_at=expires_at)

    def get(self, times: int) -> None:
        for _ in range(times):
            key, _text = self._next()
            assert self._backend.get(self._scope, key)

    def _next(self) -> tuple[str, str]:
        self._done += 1
        number = self._done % len(self._keys)
        return self._keys[number], self._texts[number]


if __name__ == "__main__":
    main()
