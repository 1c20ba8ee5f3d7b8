"""Airflow's own client, run by the Python of Airflow's environment."""

# mypy: disable-error-code="import-not-found"

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from airflow.sdk.api.client import Client

from bench.server.asked import Operations, answer


def begin(given: dict[str, Any]) -> Operations:
    keys, values, ti_id = given["keys"], given["values"], given["ti_id"]
    store = Client(base_url=f"{given['url']}/execution/", token=given["token"]).task_state_store

    def set_(number: int) -> None:
        expires_at = datetime.now(UTC) + timedelta(days=30)
        store.set(ti_id, keys[number % len(keys)], values[number % len(keys)], expires_at)

    def get(number: int) -> None:
        assert store.get(ti_id, keys[number % len(keys)]).value == values[number % len(keys)]

    return {"set": set_, "get": get}


if __name__ == "__main__":
    answer(begin)
