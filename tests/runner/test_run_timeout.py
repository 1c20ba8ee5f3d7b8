"""`dagrun_timeout`: the timeout of a run."""

from __future__ import annotations

from project import Project

DAG = """
    import time
    from datetime import timedelta
    from holdfast.sdk import DAG, task

    def report(context):
        with open("callbacks", "a") as callbacks:
            callbacks.write(context["reason"] + "\\n")

    with DAG("d", dagrun_timeout=timedelta(seconds=1.5), on_failure_callback=report):

        @task
        def quick():
            return "quick"

        @task(retries=3)
        def slow(found):
            time.sleep(60)

        @task
        def after(found):
            return found

        after(slow(quick()))
    """


def test_a_run_that_takes_too_long_fails_and_its_tasks_are_ended(project: Project) -> None:
    ended = project.run_dag(DAG)

    assert ended.status == 1
    assert "Traceback" not in ended.err
    assert project.run_of().state == "failed"
    assert project.states() == {"quick": "success", "slow": "failed", "after": "failed"}
    why = "the run took longer than its dagrun_timeout of 0:00:01.500000"
    assert {one.error for one in project.tasks().values()} == {"", why}
    assert project.processes() == []
    assert why in project.read("callbacks")
