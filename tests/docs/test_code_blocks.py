"""Code blocks of the documentation: each page is run from top to bottom, in its own directory.

- `python` blocks of a page share their names. `expression  # → text` must have that `repr`, or
  raise that error for `# → raises Name`.
- `console` blocks run each `$ command` and compare what it prints, whatever the spaces; `…` stands
  for anything. A command may fail only where the page shows its `error:`, or a run that `failed`.
- A block whose fence names a file, as in `toml holdfast.toml`, is written to that file; DAG files
  are shown so, and run by a `console` block.
- `no-run` on the fence marks what cannot run here.
"""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from holdfast import Connection

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    *sorted(page for page in (ROOT / "docs").rglob("*.md") if page.parent.name != "reference"),
]
QUICK = {"README", "task-store", "asset-store", "scripts-and-notebooks"}
"""Pages that `make test` runs: the first ones that a user reads, none of which starts Spark."""
FENCED = re.compile(r"^```(\w+)(?: (\S+))?\n(.*?)^```$", re.MULTILINE | re.DOTALL)
SHOWN = re.compile(r"  # → (.+)$")
FAILURE = re.compile(r"^error: | failed ", re.MULTILINE)


class Block(NamedTuple):
    language: str
    note: str | None
    text: str
    line: int


def blocks(page: Path) -> Iterator[Block]:
    text = page.read_text(encoding="utf-8")
    for found in FENCED.finditer(text):
        yield Block(found[1], found[2], found[3], text.count("\n", 0, found.start()) + 2)


class Shown(ast.NodeTransformer):
    """Turns each `expression  # → text` into a comparison of the two."""

    def __init__(self, source: str) -> None:
        lines = enumerate(source.splitlines(), start=1)
        self.texts = {number: at[1] for number, line in lines if (at := SHOWN.search(line))}

    def visit_Expr(self, node: ast.Expr) -> ast.stmt:
        text = self.texts.pop(node.end_lineno or 0, None)
        if text is None:
            return node
        if text.startswith("raises "):
            node.value = ast.Lambda(ast.arguments([], [], None, [], [], None, []), node.value)
        call = ast.Call(ast.Name("_shows", ast.Load()), [node.value, ast.Constant(text)], [])
        return ast.fix_missing_locations(ast.copy_location(ast.Expr(call), node))


def shows(value: Any, text: str) -> None:
    kind, _, name = text.partition(" ")
    if kind != "raises":
        assert repr(value) == text
        return
    work: Callable[[], Any] = value
    with pytest.raises(Exception) as caught:  # noqa: PT011
        work()
    assert caught.typename == name


def run_python(block: Block, page: Path, names: dict[str, Any]) -> None:
    # Leading blank lines, so that a traceback has the line numbers of the page.
    source = "\n" * (block.line - 1) + block.text
    shown = Shown(source)
    tree = shown.visit(ast.parse(source))
    assert not shown.texts, f"not the end of an expression: {shown.texts}"
    exec(compile(tree, str(page), "exec"), names)


def run_console(block: Block, page: Path) -> None:
    for step in re.split(r"^\$ ", block.text, flags=re.MULTILINE)[1:]:
        command, _, expected = step.partition("\n")
        done = subprocess.run(
            command,
            shell=True,
            text=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=os.environ
            | {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"},
            check=False,
        )
        where = f"{page}:{block.line}: $ {command}\n{done.stdout}"
        shown = re.sub("… (?=…)", "", " ".join(expected.split()))
        pattern = re.escape(shown).replace("…", ".*")
        assert re.fullmatch(pattern, " ".join(done.stdout.split())), where
        assert done.returncode == 0 or FAILURE.search(expected), where


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, Any]]:
    """Yield the namespace of a page's blocks, which start in an empty directory."""
    for name in list(os.environ):
        if name.startswith("HOLDFAST"):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, Any] = {"__name__": "page", "_shows": shows}
    yield names
    for value in names.values():
        if isinstance(value, Connection):
            value.close()


@pytest.fixture
def spark(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Stop the Spark that a page starts; keep one that other tests of this process use."""
    if SparkContext._active_spark_context is not None:
        monkeypatch.setattr(SparkSession, "stop", lambda session: None)
        yield
        return
    yield
    if SparkContext._active_spark_context is not None:
        SparkContext._active_spark_context.stop()


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "page",
    [pytest.param(page, marks=[pytest.mark.full] * (page.stem not in QUICK)) for page in PAGES],
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_code_blocks_of_the_page_run(page: Path, names: dict[str, Any]) -> None:
    for block in blocks(page):
        if block.note == "no-run":
            continue
        if block.note is not None:
            Path(block.note).write_text(block.text, encoding="utf-8")
        elif block.language == "python":
            run_python(block, page, names)
        elif block.language == "console":
            run_console(block, page)
