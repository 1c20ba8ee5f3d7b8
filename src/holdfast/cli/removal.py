"""Removal of the directories of loads, on this machine or elsewhere."""

from __future__ import annotations

import json
import os
import re
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from holdfast.actions.loads import Load
from holdfast.errors import HoldfastError
from holdfast.model.load_record import LoadRecord
from holdfast.settings import Settings

_LOCAL: Final = re.compile(r"file:(//)?(?=/)")
_URL: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_FOREIGN: Final = "this load did not write the data in it"
_HADOOP: Final = ("HADOOP_CONF_DIR", "YARN_CONF_DIR")


class Removal(msgspec.Struct):
    """The result of the removal of directories."""

    removed: list[str] = []
    left: dict[str, str] = {}
    """Directories that still exist, with the reason."""


def data_of(load: Load) -> list[str]:
    """Return the directories that a load wrote, including that of quarantined rows."""
    record = load.record
    return [*record.directories, *([record.quarantine] if record.quarantine else [])]


def may_be_there(settings: Settings, load: Load) -> bool:
    """Return whether data of a load exists, or is where only Spark can look."""
    paths = [_local_path(settings, directory) for directory in data_of(load)]
    return any(path is None or os.path.lexists(path) for path in paths)


def remove(settings: Settings, loads: Sequence[Load]) -> Removal:
    """Remove the directories of these loads.

    Directories that are gone already are skipped. A directory that does not have the name of its
    load, or that another load has saved, is left.
    """
    removal = Removal()
    distant = []
    for load in loads:
        for directory in data_of(load):
            path = _local_path(settings, directory)
            if os.path.basename(directory.rstrip("/")) != load.record.name:
                if path is None or os.path.lexists(path):
                    removal.left[directory] = "it is not named after its load"
            elif path is None:
                distant.append((directory, load.record))
            else:
                _remove_here(directory, path, load.record, removal)
    if distant:
        _remove_elsewhere(settings, distant, removal)
    return removal


def _local_path(settings: Settings, directory: str) -> str | None:
    """Return the path of a directory on this machine; None where Spark has to find it."""
    if local := _LOCAL.match(directory):
        return directory[local.end() :]
    # A path without a scheme is in Hadoop's default file system, which may be configured.
    elsewhere = "spark.hadoop.fs.defaultFS" in settings.spark.conf or any(
        name in os.environ for name in _HADOOP
    )
    return None if _URL.match(directory) or elsewhere else directory


def _is_own(record: LoadRecord, names: Sequence[str], read: Callable[[str], str]) -> bool:
    """Return whether the load of a record has saved the directory that contains these names."""
    from holdfast.spark.checkpoints.edition import TRY
    from holdfast.spark.publication import FILE

    if FILE not in names:
        # Without renames, a load has a directory for each try, and no manifest.
        return all(name.startswith(f"{TRY}=") for name in names)
    try:
        manifest = json.loads(read(FILE))
    except ValueError:
        return False
    # Two loads of the same name, in two stores, did not start in the same microsecond.
    return isinstance(manifest, dict) and manifest.get("started_at") == record.started_at


def _remove_here(directory: str, path: str, record: LoadRecord, removal: Removal) -> None:
    if not os.path.isabs(path):
        removal.left[directory] = "it is relative to where the load ran"
    elif os.path.lexists(path):
        try:
            names = os.listdir(path)
            if not _is_own(record, names, lambda name: Path(path, name).read_text("utf-8")):
                removal.left[directory] = _FOREIGN
                return
            if not os.path.islink(path):
                _empty(path)
            shutil.rmtree(path)
        except OSError as error:
            removal.left[directory] = str(error)
        else:
            removal.removed.append(directory)


def _empty(path: str) -> None:
    """Empty a directory except for the manifest, which identifies its load until the end."""
    from holdfast.spark.publication import FILE

    with os.scandir(path) as found:
        for one in found:
            if one.is_dir(follow_symlinks=False):
                shutil.rmtree(one)
            elif one.name != FILE:
                os.unlink(one)


def _remove_elsewhere(
    settings: Settings, directories: Sequence[tuple[str, LoadRecord]], removal: Removal
) -> None:
    from holdfast.spark.session.maintenance import maintenance_session
    from holdfast.spark.transfer.directory import Directory

    with maintenance_session(settings) as spark:
        for directory, record in directories:
            try:
                found = Directory(spark, directory)
                if not _is_own(record, found.names(), found.read):
                    removal.left[directory] = _FOREIGN
                elif found.delete(""):
                    removal.removed.append(directory)
                found.close()
            except HoldfastError as error:
                removal.left[directory] = error.message
