"""Unit tests by authors: operators and triggers with a store of the test."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest

from holdfast.sdk import BaseEventTrigger, BaseOperator, ResumableJobMixin, TriggerEvent

TASK_SPELLINGS = ("task_store", "task_state", "task_state_store")
ASSET_SPELLINGS = ("asset_store", "asset_state", "asset_state_store")


class Fake:
    """Store with get and set only."""

    def __init__(self, **values: Any) -> None:
        self.values = values

    def get(self, key: str) -> Any:
        return self.values.get(key)

    def set(self, key: str, value: Any) -> None:
        self.values[key] = value


class Job(ResumableJobMixin, BaseOperator):
    status = "RUNNING"

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.calls: list[str] = []

    def execute(self, context: Any) -> Any:
        return self.execute_resumable(context)

    def submit_job(self, context: Any) -> str:
        self.calls.append("submit")
        return "app_2"

    def get_job_status(self, external_id: str, context: Any) -> str:
        return self.status

    def is_job_active(self, status: str) -> bool:
        return status == "RUNNING"

    def is_job_succeeded(self, status: str) -> bool:
        return status == "SUCCEEDED"

    def poll_until_complete(self, external_id: str, context: Any) -> None:
        self.calls.append(f"poll {external_id}")

    def get_job_result(self, external_id: str, context: Any) -> str:
        return f"result of {external_id}"


class Cancellable(Job):
    def poll_until_complete(self, external_id: str, context: Any) -> None:
        self.on_kill()

    def cancel_job(self, external_id: str, context: Any) -> None:
        self.calls.append(f"cancel {external_id}")


@pytest.mark.parametrize("spelling", TASK_SPELLINGS)
def test_a_job_is_recorded_in_the_store_of_a_test(spelling: str) -> None:
    store, job = Fake(), Job(task_id="job")

    assert job.execute_resumable({spelling: store}) == "result of app_2"

    assert job.calls == ["submit", "poll app_2"]
    assert store.values == {"remote_job_id": "app_2"}


@pytest.mark.parametrize("spelling", TASK_SPELLINGS)
@pytest.mark.parametrize(
    ("status", "calls", "left"),
    [
        ("RUNNING", ["poll app_1"], "app_1"),
        ("SUCCEEDED", [], "app_1"),
        ("FAILED", ["submit", "poll app_2"], "app_2"),
    ],
)
def test_a_job_in_the_store_of_a_test_is_resumed(
    spelling: str, status: str, calls: list[str], left: str
) -> None:
    store, job = Fake(remote_job_id="app_1"), Job(task_id="job")
    job.status = status

    assert job.execute_resumable({spelling: store}) == f"result of {left}"

    assert job.calls == calls
    assert store.values == {"remote_job_id": left}


def test_a_job_that_is_killed_in_a_test_is_cancelled() -> None:
    job = Cancellable(task_id="job")

    job.execute_resumable({"task_store": Fake()})

    assert job.calls == ["submit", "cancel app_2"]


@pytest.mark.parametrize("context", [{}, {"task_state_store": None}])
def test_without_a_store_a_job_runs_with_a_warning(
    context: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    job = Job(task_id="job")

    with caplog.at_level(logging.WARNING):
        assert job.execute_resumable(context) == "result of app_2"

    assert "the context has no task store" in caplog.text


def test_a_job_that_is_not_durable_needs_no_store(caplog: pytest.LogCaptureFixture) -> None:
    assert Job(task_id="job", durable=False).execute_resumable({}) == "result of app_2"

    assert not caplog.records


class Poll(BaseEventTrigger):
    async def run(self) -> AsyncIterator[TriggerEvent]:
        store = getattr(self, "asset_state_store", None)
        yield TriggerEvent(store.get("cursor") if store else "none")


async def _payloads(trigger: BaseEventTrigger) -> list[Any]:
    return [event.payload async for event in trigger.run()]


@pytest.mark.parametrize("spelling", ASSET_SPELLINGS)
def test_a_trigger_uses_the_store_of_a_test(spelling: str) -> None:
    trigger, store = Poll(), Fake(cursor=3)

    setattr(trigger, spelling, store)

    assert [getattr(trigger, name) for name in ASSET_SPELLINGS] == [store] * 3
    assert asyncio.run(_payloads(trigger)) == [3]


def test_a_trigger_has_no_store_before_it_runs() -> None:
    trigger = Poll()

    assert [getattr(trigger, name) for name in ASSET_SPELLINGS] == [None] * 3
    assert asyncio.run(_payloads(trigger)) == ["none"]


def test_a_trigger_takes_any_arguments() -> None:
    assert isinstance(Poll(poll_interval=5, anything=None), BaseEventTrigger)
