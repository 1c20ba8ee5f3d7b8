"""uvicorn's internal members, on which the server's limits for connections build."""

from __future__ import annotations

import ast
import inspect
from typing import Any

import pytest
from uvicorn.protocols.http.flow_control import FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

from holdfast.server.http import protocol

TREE = ast.parse(inspect.getsource(protocol))


def used(variables: set[str]) -> set[str]:
    """Return the members that our protocol uses of these variables."""
    return {
        node.attr
        for node in ast.walk(TREE)
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) in variables
    }


def ours() -> set[str]:
    """Return the members that our own classes define."""
    functions = {node.name for node in ast.walk(TREE) if isinstance(node, ast.FunctionDef)}
    return functions | {
        node.attr
        for node in ast.walk(TREE)
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and ast.unparse(node.value) == "self"
    }


@pytest.mark.parametrize(
    ("kind", "variables"),
    [
        (HttpToolsProtocol, {"self", "protocol", "self._protocol"}),
        (RequestResponseCycle, {"cycle", "self.cycle"}),
        (FlowControl, {"self.flow", "cycle.flow"}),
    ],
)
def test_the_members_of_uvicorn_that_we_use_exist(kind: type[Any], variables: set[str]) -> None:
    names = used(variables) - (ours() if "self" in variables else set())
    source = inspect.getsource(kind)

    assert names
    assert {name for name in names if not hasattr(kind, name) and f"self.{name}" not in source} == (
        set()
    )
