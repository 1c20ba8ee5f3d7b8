"""Lazily loaded names."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["holdfast", "holdfast.spark"])
def test_completion_offers_the_names_that_are_not_loaded_yet(module: str) -> None:
    program = (
        f"import sys, {module} as module; missing = set(module.__all__) - set(dir(module)); "
        "print(sorted(missing), 'pyspark' in sys.modules, 'sqlalchemy' in sys.modules)"
    )

    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert shown.stdout == "[] False False\n", shown.stderr
