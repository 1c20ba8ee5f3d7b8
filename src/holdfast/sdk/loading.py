"""Importing a DAG file, and saying what it holds."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import time
from importlib.machinery import SourceFileLoader
from types import ModuleType
from typing import Final

from holdfast.errors import HoldfastError, InvalidDag
from holdfast.runner.channel import encode
from holdfast.runner.messages import Parsed, ParseStartup
from holdfast.sdk.dag import DAG, made
from holdfast.sdk.tracebacks import formatted, line_in

REPLACED_WITHIN: Final = 10.0
"""Seconds."""


def module_name(path: str) -> str:
    """The name under which a DAG file is imported: always the same for one file."""
    path = os.path.realpath(path)
    stem = re.sub(r"\W", "_", os.path.splitext(os.path.basename(path))[0])
    return f"holdfast_dag_{hashlib.sha256(path.encode()).hexdigest()[:12]}_{stem}"


def own_modules(path: str) -> list[ModuleType]:
    """A DAG file that was imported, and the modules of its directory that it has imported."""
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
    """Import a file anew and answer with its DAGs, if any, in the order in which they were made."""
    module = _import(path)
    held = [one for one in vars(module).values() if isinstance(one, DAG)]
    found = [one for one in made if one.module == module.__name__ or one in held]
    ids: set[str] = set()
    for one in found:
        if one.dag_id in ids:
            raise InvalidDag(
                f"{path} holds two DAGs with the id `{one.dag_id}`",
                hint="give one of them another dag_id",
            )
        ids.add(one.dag_id)
    return found


def find_dag(path: str, dag_id: str) -> DAG:
    """One DAG of a file."""
    dags = load_file(path)
    for one in dags:
        if one.dag_id == dag_id:
            return one
    raise InvalidDag(
        f"{path} holds no DAG `{dag_id}`",
        hint=f"it holds {', '.join(one.dag_id for one in dags)}",
    )


def parse(startup: ParseStartup) -> Parsed:
    """What a file holds, or why it cannot be imported; never an exception."""
    try:
        parsed = Parsed(dags=tuple(one.spec(startup.file) for one in load_file(startup.file)))
        encode(parsed)  # what cannot be sent is a mistake in the file, and is reported as one
    except HoldfastError as error:
        line = line_in(startup.file, error)
        return Parsed(error=f"{startup.file}:{line}: {error}" if line else str(error))
    except (Exception, SystemExit) as error:
        return Parsed(error=formatted(error))
    return parsed


def _import(path: str) -> ModuleType:
    _await(path)
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


def _await(path: str) -> None:
    """A file that is being replaced may be away for a moment; a task is not to fail for that."""
    deadline = time.monotonic() + REPLACED_WITHIN
    while not os.path.isfile(path):
        if time.monotonic() > deadline:
            raise InvalidDag(f"there is no file {path}")
        time.sleep(0.05)
