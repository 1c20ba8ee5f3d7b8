"""References in the documentation: links, names of tests, columns, examples."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import sqlalchemy as sa

from holdfast.stores.sql.tables import metadata

ROOT = Path(__file__).parents[2]
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
LINK = re.compile(r"\[[^]]+\]\(([^)#]*)(?:#([^)]+))?\)")


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page."""
    titles = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_has_a_target(page: Path) -> None:
    for path, anchor in LINK.findall(page.read_text(encoding="utf-8")):
        if path.startswith(("http://", "https://")):
            continue
        target = page.parent / path if path else page
        assert target.exists(), path
        assert not anchor or anchor in anchors(target), anchor


def test_the_tests_that_pages_name_exist() -> None:
    named = {name for page in PAGES for name in re.findall(r"`(test_\w+)`", page.read_text())}
    files = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "src/holdfast/testing").rglob("*.py")]
    written = {name for file in files for name in re.findall(r"def (test_\w+)", file.read_text())}

    assert named - written == set()


def test_the_tests_of_guarantees_are_in_the_quick_tier(only_in_full: set[str]) -> None:
    page = (ROOT / "docs/concepts/how-it-works.md").read_text(encoding="utf-8")

    assert set(re.findall(r"`(test_\w+)`", page)) & only_in_full == set()


@pytest.mark.parametrize("table", metadata.sorted_tables, ids=lambda table: str(table.name))
def test_the_schema_page_has_every_column(table: sa.Table) -> None:
    page = (ROOT / "docs/concepts/schema.md").read_text(encoding="utf-8")
    [row] = re.findall(rf"^\| `{table.name}` \|.*$", page, re.MULTILINE)

    described = set(re.findall(r"`(\w+)`", row)) | {"id"}
    assert {column.name for column in table.columns} <= described


def test_the_backend_of_the_guide_is_that_of_the_example() -> None:
    guide = (ROOT / "docs/guides/custom-backend.md").read_text(encoding="utf-8")
    example = (ROOT / "examples/custom_backend.py").read_text(encoding="utf-8")
    [shown] = re.findall(r"^class FileBackend\(BaseStore.*?^```$", guide, re.MULTILINE | re.DOTALL)

    assert shown.removesuffix("```") in example
