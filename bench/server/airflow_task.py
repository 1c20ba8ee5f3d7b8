"""A running task in Airflow's database, run by Airflow's Python: prints its id and a token."""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

import json
import sys

from airflow.executors.local_executor import LocalExecutor
from airflow.models.dagrun import DagRun
from airflow.models.taskinstance import TaskInstance
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG
from airflow.utils.session import create_session


def main(dag_id: str, run_id: str, task_id: str) -> None:
    with DAG(dag_id, schedule=None):
        task = EmptyOperator(task_id=task_id)
    with create_session() as session:
        session.add(DagRun(dag_id=dag_id, run_id=run_id, run_type="manual", state="running"))
        session.flush()
        instance = TaskInstance(task, dag_version_id=None, run_id=run_id, state="running")
        session.add(instance)
        session.flush()
        ti_id = str(instance.id)
    token = LocalExecutor().jwt_generator.generate({"sub": ti_id})
    print(json.dumps({"ti_id": ti_id, "token": token}))


if __name__ == "__main__":
    main(*sys.argv[1:])
