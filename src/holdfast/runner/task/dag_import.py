"""Import of DAG files."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import time
from collections import Counter
from importlib.machinery import SourceFileLoader
from types import FunctionType, ModuleType
from typing import Final

from holdfast.errors import HoldfastError, InvalidDag
from holdfast.runner.protocol.messages import Parsed, ParseStartup
from holdfast.runner.task.tracebacks import formatted, line_in
from holdfast.sdk.dag import DAG, DAG_FUNCTION, made
from holdfast.wire.channel import encode

REPLACED_WITHIN: Final = 10.0
"""Seconds for which a task waits for a missing file."""
CHANGED_WITHIN: Final = 1.0
"""Seconds for which a task waits for a change of an invalid file, which may be incomplete."""


def module_name(path: str) -> str:
    """Return the module name for the import of a DAG file, which is always the same for a file."""
    path = os.path.realpath(path)
    stem = re.sub(r"\W", "_", os.path.splitext(os.path.basename(path))[0])
    return f"holdfast_dag_{hashlib.sha256(os.fsencode(path)).hexdigest()[:12]}_{stem}"


def own_modules(path: str) -> list[ModuleType]:
    """Return the module of an imported DAG file, and the imported modules of its directory."""
    folder = os.path.dirname(os.path.realpath(path)) + os.sep
    installed = tuple(os.path.realpath(place) + os.sep for place in (sys.prefix, sys.base_prefix))
    found = [sys.modules[module_name(path)]]
    for module in list(sys.modules.values()):
        file = isinstance(module, ModuleType) and getattr(module, "__file__", None)
        if file and module not in found:
            place = os.path.realpath(file)
            if place.startswith(folder) and not place.startswith(installed):
                found.append(module)
    return found


def load_file(path: str) -> list[DAG]:
    """Import a file anew and return its DAGs, if any, in the order in which they were made.

    Raise InvalidDag if two of them have the same id.
    """
    module = _import(path)
    held = [one for one in vars(module).values() if isinstance(one, DAG)]
    found = [one for one in made if one.module == module.__name__ or one in held]
    for dag_id, times in Counter(one.dag_id for one in found).items():
        if times > 1:
            raise InvalidDag(
                f"{path} has two DAGs with the id `{dag_id}`",
                hint="give one of them another dag_id",
            )
    return found


def find_dag(path: str, dag_id: str, task_id: str | None = None) -> DAG:
    """Return a DAG of a file. Raise InvalidDag if there is no such DAG, or if it lacks the task.

    A file that is being replaced may be missing, truncated or without the DAG for a moment, so it
    is read again while it changes.
    """
    deadline = time.monotonic() + REPLACED_WITHIN
    while True:
        read = _stamp(path)
        try:
            dag = _find_dag(path, dag_id)
            if task_id is not None:
                dag.get_task(task_id)
        except (InvalidDag, SyntaxError):
            if not _changes(path, read) or time.monotonic() > deadline:
                raise
        else:
            return dag


def _find_dag(path: str, dag_id: str) -> DAG:
    dags = {one.dag_id: one for one in load_file(path)}
    if dag_id not in dags:
        raise InvalidDag(
            f"{path} has no DAG `{dag_id}`", hint=f"it has {', '.join(dags) or 'none'}"
        )
    return dags[dag_id]


def parse(startup: ParseStartup) -> Parsed:
    """Import a file and return its DAGs, or the error of its import instead of raising it."""
    try:
        dags = tuple(one.spec(startup.file) for one in load_file(startup.file))
        parsed = Parsed(dags=dags, uncalled=() if dags else _dag_functions(startup.file))
        encode(parsed)  # a DAG that cannot be sent is an error in the file, and reported as one
    except HoldfastError as error:
        line = line_in(startup.file, error)
        return Parsed(error=f"{startup.file}:{line}: {error}" if line else str(error))
    except (Exception, SystemExit) as error:
        return Parsed(error=formatted(error))
    return parsed


def _dag_functions(path: str) -> tuple[str, ...]:
    """Return the names of the functions of an imported file that are decorated with `@dag`."""
    name = module_name(path)
    values = vars(sys.modules[name]).values()
    functions = [one for one in values if isinstance(one, FunctionType) and one.__module__ == name]
    return tuple(one.__name__ for one in functions if DAG_FUNCTION in vars(one))


def _import(path: str) -> ModuleType:
    if not os.path.isfile(path):
        raise InvalidDag(f"there is no file {path}")
    name = module_name(path)
    folder = os.path.dirname(os.path.realpath(path))
    if folder not in sys.path:
        # At the end: a file called operator.py or email.py must not hide the module of that name.
        sys.path.append(folder)
    loader = SourceFileLoader(name, path)
    spec = importlib.util.spec_from_file_location(name, path, loader=loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    # Compiled from the source and not from a cache: a file may change twice within the cache's
    # one-second clock. It stays in sys.modules, where dataclasses and pickle look for it.
    code = loader.source_to_code(loader.get_data(path), path)
    sys.modules[name] = module
    del made[:]
    exec(code, vars(module))  # noqa: S102  (a DAG file is a program)
    return module


def _changes(path: str, since: tuple[int, ...]) -> bool:
    """Wait briefly for a file to change or to reappear, and return whether it has."""
    deadline = time.monotonic() + (CHANGED_WITHIN if since else REPLACED_WITHIN)
    while _stamp(path) in (since, ()):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _stamp(path: str) -> tuple[int, ...]:
    """Return a fingerprint of a file's state; empty if there is no file."""
    try:
        status = os.stat(path)
    except OSError:
        return ()
    return status.st_mtime_ns, status.st_ctime_ns, status.st_size, status.st_ino
