"""Many instances of one task."""

from __future__ import annotations

from project import Project

from holdfast.model.run import RunState

DAG = """\
from holdfast.sdk import DAG, task

with DAG("d", max_active_tasks=16) as dag:

    @task
    def nothing(number):
        print(number)

    nothing.expand(number=list(range(80)))
"""


def test_instances_that_end_at_the_same_moment_each_run_once(project: Project) -> None:
    result = project.run_dag(DAG)

    assert result.status == 0, result.err
    assert project.run_of().state is RunState.SUCCESS
    assert {task.attempt for task in project.tasks().values()} == {1}
    assert len(project.tasks()) == 80
