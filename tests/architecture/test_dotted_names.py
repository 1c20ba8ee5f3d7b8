"""Dotted names of modules and their members in tests, benchmarks and pages: a patch, or a fault, of
a module that has moved would do nothing."""

from __future__ import annotations

import re
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAME = re.compile(r"(?<![\w./\-@\\])holdfast\.[a-z_]+(?:\.[a-zA-Z_]\w*)+")
OTHER = {"holdfast.env.example", "holdfast.orders.watermark", "holdfast.sequence.loads"}
"""Dotted names of something else."""


def leads_somewhere(name: str) -> bool:
    module, members = name, []
    while not _is_module(module):
        module, _, member = module.rpartition(".")
        members.insert(0, member)
    found: object = import_module(module)
    for member in members:
        if not hasattr(found, member):
            return False
        found = getattr(found, member)
    return True


def _is_module(name: str) -> bool:
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:
        return False


def test_every_dotted_name_leads_somewhere() -> None:
    lost = {
        (str(path.relative_to(ROOT)), name)
        for pattern in ("tests/**/*.py", "bench/**/*.py", "docs/**/*.md", "*.md")
        for path in ROOT.glob(pattern)
        for name in NAME.findall(path.read_text(encoding="utf-8"))
        if name not in OTHER and not leads_somewhere(name)
    }

    assert not lost


def test_a_name_of_a_module_that_has_moved_is_found() -> None:
    assert leads_somewhere("holdfast.flow.run")
    assert not leads_somewhere(".".join(["holdfast", "runner", "channel", "send"]))
