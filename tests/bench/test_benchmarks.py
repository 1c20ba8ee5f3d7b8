"""Benchmarks at a tiny size: they still run, whatever has changed since they were last used."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
AIRFLOW = ROOT / ".venv-airflow" / "bin" / "python"


@pytest.mark.full
@pytest.mark.parametrize("package", ["offload", "runner", "server", "spark", "store"])
def test_every_section_of_a_benchmark_runs(package: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", f"bench.{package}"],
        cwd=ROOT,
        env={**os.environ, "BENCH_SIZE": "tiny"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Verdict" in done.stdout
    assert "not be measured" not in done.stdout, done.stdout
    assert "not measured" not in done.stdout, done.stdout
    assert not AIRFLOW.exists() or "did not take part" not in done.stdout, done.stdout
