"""Check for the unrelated distribution `holdfast`, which conflicts with `holdfast-state`."""

from __future__ import annotations

from pathlib import Path

from holdfast.errors import ForeignPackage


def check(site: Path = Path(__file__).parents[1]) -> None:
    """Raise ForeignPackage if the other project is installed in the same directory.

    Both have a package `holdfast`, so the files of one replace those of the other.
    """
    # By file name, because importlib.metadata takes longer to load than a command may take.
    for found in site.glob("holdfast-*.dist-info"):
        version = found.name.removeprefix("holdfast-").removesuffix(".dist-info")
        raise ForeignPackage(
            f"{site} has the package holdfast {version}, which is another project: its files and "
            "those of holdfast-state replace each other",
            hint="pip uninstall -y holdfast && pip install --force-reinstall holdfast-state",
        )
