"""Traces of real runs, through all processes."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from project import Project
from serving import Served

PROVIDER = """
    import json, os
    from opentelemetry import trace
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter, SpanExportResult

    class ToFile(SpanExporter):
        def export(self, spans):
            with open(os.environ["SPANS"], "a") as file:
                for span in spans:
                    file.write(json.dumps({
                        "name": span.name,
                        "trace": span.context.trace_id,
                        "id": span.context.span_id,
                        "parent": span.parent and span.parent.span_id,
                        "attributes": dict(span.attributes),
                        "error": span.status.description,
                        "pid": os.getpid(),
                    }) + "\\n")
            return SpanExportResult.SUCCESS

    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(ToFile()))
    trace.set_tracer_provider(provider)
    """
DAG = """
    import os
    from datetime import timedelta
    from holdfast.sdk import DAG, task

    with DAG("d"):

        @task(retries=1, retry_delay=timedelta(seconds=0.1))
        def load(task_store=None, ti=None):
            task_store.set("cursor", ti.try_number)
            if ti.try_number == 1:
                raise ValueError("no")
            if "SPANS" in os.environ:
                from opentelemetry import trace
                with trace.get_tracer("mine").start_as_current_span("my own"):
                    pass
            return os.environ.get("TRACEPARENT")

        load()
    """


def spans(project: Project) -> list[dict[str, Any]]:
    return [json.loads(line) for line in project.read("spans").splitlines()]


@pytest.mark.full
def test_a_run_is_one_trace_through_all_processes_and_the_server(project: Project) -> None:
    project.write("otel/sitecustomize.py", PROVIDER)
    project.environ["PYTHONPATH"] = str(project.path("otel"))
    project.environ["SPANS"] = str(project.path("spans"))
    project.holdfast("db", "check")
    served = Served(project)

    ended = project.run_dag(DAG, HOLDFAST__WORKERS__SERVER_URL=served.url)
    served.close()

    found = spans(project)
    [run] = [span for span in found if span["name"] == "run d"]
    own = [span for span in found if span["trace"] == run["trace"]]
    failed, succeeded = (span for span in own if span["name"] == "attempt d.load")
    stored = [span for span in own if span["name"] == "store Set"]
    by_supervisor = [span for span in stored if span["parent"] in (failed["id"], succeeded["id"])]
    by_server = [span for span in stored if span not in by_supervisor]
    [mine] = [span for span in own if span["name"] == "my own"]
    assert ended.status == 0, ended.err
    assert (run["parent"], failed["parent"], succeeded["parent"]) == (None, run["id"], run["id"])
    assert run["attributes"]["holdfast.run_id"] == "r"
    assert run["attributes"]["holdfast.state"] == "success"
    assert failed["attributes"]["holdfast.outcome"] == "failed"
    assert (failed["error"], succeeded["error"]) == ("ValueError: no", None)
    assert [span["attributes"]["holdfast.attempt"] for span in (failed, succeeded)] == [1, 2]
    assert len(by_supervisor) == len(by_server) == 2
    assert {span["parent"] for span in by_server} == {span["id"] for span in by_supervisor}
    assert {span["pid"] for span in by_server} == {served.process.pid}
    assert mine["parent"] == succeeded["id"]
    [context] = project.result("load")
    assert context.startswith(f"00-{run['trace']:032x}-{succeeded['id']:016x}-")


@pytest.mark.full
def test_enabled_tracing_sends_to_the_exporter_that_opentelemetry_is_set_to(
    project: Project,
) -> None:
    enabled = {"HOLDFAST__TRACING__ENABLED": "true", "OTEL_TRACES_EXPORTER": "console"}

    ended = project.run_dag(DAG, **enabled)

    names = re.findall(r'"name": "(.*)"', ended.out)
    assert ended.status == 0, ended.err
    assert names.count("attempt d.load") == 2 and "run d" in names and "store Set" in names
    assert '"service.name": "holdfast"' in ended.out
    assert project.result("load")[0].startswith("00-")


@pytest.mark.full
def test_tracing_is_off_by_default(project: Project) -> None:
    ended = project.run_dag(DAG)

    assert (ended.status, ended.out) == (0, "")
    assert project.result("load") == []


@pytest.mark.parametrize("name", ["nowhere", "console,nowhere"])
def test_an_unknown_exporter_is_an_error_at_the_start(project: Project, name: str) -> None:
    project.environ |= {"HOLDFAST__TRACING__ENABLED": "true", "OTEL_TRACES_EXPORTER": name}

    ended = project.run_dag(DAG)

    assert ended.status == 2
    assert ended.err.startswith("error: tracing is enabled, and there is no exporter `nowhere`")
    assert "hint: installed: console" in ended.err
