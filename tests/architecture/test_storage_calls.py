"""Calls of obstore: its async ones abort a process that exits soon after them."""

from __future__ import annotations

import ast
from pathlib import Path

import holdfast

SOURCE = Path(holdfast.__file__).parent


def async_calls(text: str) -> list[str]:
    """Return the methods called in a source text that are named like obstore's async ones."""
    return [
        node.attr
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Attribute) and node.attr.endswith("_async")
    ]


def test_obstore_is_not_called_asynchronously() -> None:
    users = [path for path in SOURCE.rglob("*.py") if "obstore" in path.read_text()]

    assert async_calls("await store.put_async(path, data)") == ["put_async"]
    assert len(users) > 3
    assert {path.name: found for path in users if (found := async_calls(path.read_text()))} == {}
