"""DAG files of tests, and cleanup of the modules that they import."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from task_runs import Pipeline, write_file


@pytest.fixture(autouse=True)
def _modules_as_before() -> Iterator[None]:
    path, modules = list(sys.path), set(sys.modules)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        if name.startswith("holdfast_dag_"):
            del sys.modules[name]


@pytest.fixture
def pipeline(tmp_path: Path) -> Callable[[str], Pipeline]:
    """Return a function that creates a pipeline from text."""
    return lambda text: Pipeline(write_file(tmp_path, text))
