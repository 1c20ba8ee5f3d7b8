"""Retention as configured."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from holdfast import commands as c
from holdfast.actions.logs import log_path
from holdfast.actions.retention import apply_retention
from holdfast.model.scope import TaskScope
from holdfast.settings import Retention, Settings, load
from holdfast.stores.backend.adapter import BackendStore
from holdfast.stores.backend.base import BaseStoreBackend
from holdfast.stores.sql import SqlStore
from holdfast.testing import Clock

DAY = timedelta(days=1)
SCRIPT = TaskScope("script", "r", "t")


class Nowhere(BaseStoreBackend):
    """Custom backend that nothing is written to."""

    def get(self, scope, key, *, session=None):
        return None

    def set(self, scope, key, value, *, expires_at=None, session=None):
        raise AssertionError

    def delete(self, scope, key, *, session=None):
        raise AssertionError

    def clear(self, scope, *, all_map_indices=False, session=None):
        raise AssertionError


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    every = Retention(runs=DAY, external_runs=DAY, asset_events=DAY, logs=DAY)
    return msgspec.structs.replace(load(tmp_path, {}), retention=every)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqlStore]:
    """Yield a store with a run that is a day old."""
    clock = Clock()
    with SqlStore(f"sqlite:///{tmp_path / 'store.db'}", clock=clock) as store:
        store.execute(c.RegisterTask(SCRIPT))
        clock.forward(DAY)
        yield store


def test_what_was_deleted_is_logged_in_one_line(store, settings, caplog):
    log = log_path(settings.home, SCRIPT, 1)
    log.parent.mkdir(parents=True)
    log.touch()

    with caplog.at_level(logging.INFO, "holdfast.cleanup"):
        for _ in range(2):
            apply_retention(store, settings)

    assert caplog.messages == ["removed by age: runs: 1, logs of deleted runs: 1"]
    assert not log.exists()


def test_without_settings_nothing_is_deleted(store, settings, caplog):
    apply_retention(store, msgspec.structs.replace(settings, retention=Retention()))

    assert store.execute(c.GetRun("script", "r"))
    assert caplog.messages == []


def test_with_a_custom_backend_runs_are_kept_and_that_is_logged(store, settings, caplog):
    custom = BackendStore(Nowhere(), store)

    apply_retention(custom, settings)

    assert custom.execute(c.GetRun("script", "r"))
    [message] = caplog.messages
    assert "no runs are removed by age, because the configured backend" in message
