"""The modules that are shipped to executors, where Holdfast and obstore are not installed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow
import pytest

import holdfast

SOURCE = Path(holdfast.__file__).parent
MODULES = sorted(path.stem for path in SOURCE.glob("portable/lake/*.py") if path.stem[0] != "_")
STANDARD = ("footers", "partitions", "storage")
"""Those that a process without PyArrow can import, too."""


def run(module: str, directory: Path, *packages: Path) -> subprocess.CompletedProcess[str]:
    """Import a module in an isolated interpreter that has only these packages."""
    package = directory / "holdfast"
    package.mkdir()
    (package / "__init__.py").touch()
    for path in (SOURCE / "errors.py", SOURCE / "portable"):
        (package / path.name).symlink_to(path)
    for path in packages:
        (directory / path.name).symlink_to(path)
    program = f"import sys; sys.path.insert(0, {str(directory)!r}); import {module}"
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", program], capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize("module", MODULES)
def test_a_module_needs_only_pyarrow(module: str, tmp_path: Path) -> None:
    found = Path(pyarrow.__file__).parent

    ran = run(f"holdfast.portable.lake.{module}", tmp_path, found)

    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("module", STANDARD)
def test_a_module_needs_only_the_standard_library(module: str, tmp_path: Path) -> None:
    ran = run(f"holdfast.portable.lake.{module}", tmp_path)

    assert ran.returncode == 0, ran.stderr
