"""Import layers between packages, and the modules that are shipped to executors."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import holdfast

ROOT = Path(__file__).parents[2]
SOURCE = Path(holdfast.__file__).parent
PORTABLE = sorted(
    path.relative_to(SOURCE.parent).with_suffix("").as_posix().replace("/", ".")
    for path in SOURCE.glob("portable/*.py")
    if path.stem != "__init__"
)


def lint(directory: Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).with_name("lint-imports")
    return subprocess.run(
        [program, "--no-cache"],
        cwd=directory,
        env={"PYTHONPATH": str(directory / "src"), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """Return a copy of the source, to add imports to."""
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_no_package_imports_one_above_it(copied: Path) -> None:
    checked = lint(copied)

    assert checked.returncode == 0, checked.stdout
    assert "3 kept, 0 broken" in checked.stdout


@pytest.mark.parametrize(
    ("lower", "higher"),
    [
        ("model/scope.py", "holdfast.stores.http"),
        ("stores/pipe.py", "holdfast.runner.protocol.messages"),
        ("sdk/dag.py", "holdfast.cli.output"),
        ("runner/scheduler/decide.py", "holdfast.runner.supervisor.attempt"),
        ("runner/triggerer.py", "holdfast.runner.scheduler.limits"),
        ("runner/supervisor/attempt.py", "holdfast.runner.service.sign_of_life"),
    ],
)
def test_a_planted_import_breaks_the_layers(copied: Path, lower: str, higher: str) -> None:
    with (copied / "src/holdfast" / lower).open("a") as file:
        file.write(f"\n\ndef planted():\n    import {higher}\n")

    checked = lint(copied)

    assert checked.returncode == 1
    assert higher in checked.stdout.replace("\n", "")


@pytest.mark.parametrize("module", PORTABLE)
def test_shipped_modules_need_only_the_standard_library(module: str, tmp_path: Path) -> None:
    package = tmp_path / "holdfast"
    package.mkdir()
    (package / "__init__.py").touch()
    (package / "errors.py").symlink_to(SOURCE / "errors.py")
    (package / "portable").symlink_to(SOURCE / "portable")
    program = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import {module}"

    # Isolated, and without the packages that are installed beside the interpreter.
    subprocess.run([sys.executable, "-I", "-S", "-c", program], check=True)
