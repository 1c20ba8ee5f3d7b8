"""Stop of a scheduler, part of which fails."""

from __future__ import annotations

from threading import Event
from unittest.mock import Mock

import pytest

from holdfast.runner.scheduler.scheduler import Scheduler


def test_a_failure_of_one_part_does_not_keep_the_others_open() -> None:
    scheduler, stopping = Scheduler.__new__(Scheduler), Event()
    conductor, life, disk, store = Mock(), Mock(), Mock(), Mock()
    scheduler._conductor, scheduler._life, scheduler._store = conductor, life, store
    scheduler._disk = disk
    conductor.stop.side_effect = OSError("the supervisor cannot be reached")
    stopping.set()

    with pytest.raises(OSError, match="cannot be reached"):
        scheduler.run(stopping)

    conductor.alerting.stop.assert_called_once_with()
    life.end.assert_called_once_with()
    disk.stop.assert_called_once_with()
    store.close.assert_called_once_with()
