"""Query plans of what monitoring asks every few seconds: no large table is scanned."""

from __future__ import annotations

from pathlib import Path

import pytest
import sqlalchemy as sa

from holdfast.stores.sql import schema
from holdfast.stores.sql.compiled import CompiledStatements
from holdfast.stores.sql.dialects import make_engine, parse_url
from holdfast.stores.sql.statements import activity, pools, runs, services

LARGE = ("hf_run", "hf_task_instance", "hf_attempt", "hf_asset_event", "hf_asset ")


@pytest.mark.parametrize(
    "statement",
    [
        activity.open_tasks(),
        activity.watchers(),
        runs.unfinished_runs(),
        pools.pools(besides=False),
        services.services(),
    ],
    ids=["open tasks", "watchers", "unfinished runs", "pools", "services"],
)
def test_no_large_table_is_scanned(tmp_path: Path, statement: sa.Select[tuple[int]]) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    schema.migrate(url)
    engine = make_engine(*parse_url(url))
    text, params, *_ = CompiledStatements(engine.dialect).prepare((statement, {"age": 1}), 1)

    with engine.connect() as connection:
        steps = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {text}", params).fetchall()
    engine.dispose()

    plan = [step[-1] for step in steps]
    assert plan
    assert not [step for step in plan if step.startswith(tuple(f"SCAN {one}" for one in LARGE))]


def test_idle_runs_are_not_read_for_their_tasks() -> None:
    """Only external runs are idle, of which there may be very many."""
    text = str(activity.open_tasks().compile(compile_kwargs={"literal_binds": True}))

    assert "'queued', 'running'" in text
    assert "idle" not in text
