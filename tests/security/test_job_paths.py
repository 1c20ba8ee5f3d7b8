"""Ids of jobs come from the task store, and lead to no other place."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import InvalidInput
from holdfast.spark.jobs.clusters.local import LocalSubmit


@pytest.mark.parametrize(
    "driver", ["../../../../escaped", "..", ".", "", "/etc", "a/b", "6c1d9f0e-5a0b-4d53-9d0c"]
)
def test_a_driver_that_is_no_uuid_leads_nowhere(tmp_path: Path, driver: str) -> None:
    cluster = LocalSubmit("local[1]", tmp_path / "home")

    for ask in (cluster.find, cluster.status, cluster.cancel, cluster.where_logs_are):
        with pytest.raises(InvalidInput, match="no id of a driver"):
            ask(driver)
    with pytest.raises(InvalidInput, match="no id of a driver"):
        cluster.read(driver, "log", None)
    assert list(tmp_path.iterdir()) == []
