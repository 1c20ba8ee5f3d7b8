"""The installed distribution `holdfast`, and foreign ones of the same name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast
from holdfast import distribution
from holdfast.errors import ForeignPackage


def test_the_error_for_a_foreign_package_names_it(tmp_path: Path) -> None:
    (tmp_path / "holdfast-0.5.1.dist-info").mkdir()

    with pytest.raises(ForeignPackage, match=r"holdfast 0\.5\.1, which is another project"):
        distribution.check(tmp_path)


def test_the_holdfast_distribution_is_not_foreign(tmp_path: Path) -> None:
    (tmp_path / "holdfast_state-0.1.0.dist-info").mkdir()

    distribution.check(tmp_path)


def test_the_command_refuses_to_run_from_mixed_files(tmp_path: Path) -> None:
    shutil.copytree(Path(holdfast.__file__).parent, tmp_path / "holdfast")
    (tmp_path / "holdfast-0.5.1.dist-info").mkdir()
    environ = os.environ | {"PYTHONPATH": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "holdfast", "--version"]

    ran = subprocess.run(command, env=environ, capture_output=True, text=True, check=False)

    assert (ran.returncode, ran.stdout) == (1, "")
    assert "error: " in ran.stderr and "hint: pip uninstall -y holdfast" in ran.stderr
