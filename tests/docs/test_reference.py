"""Generated reference pages."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PAGES: dict[str, str] = runpy.run_path(str(DOCS / "generate.py"))["pages"]()


@pytest.mark.parametrize("name", PAGES)
def test_the_generated_page_is_up_to_date(name: str) -> None:
    committed = (DOCS / "reference" / name).read_text(encoding="utf-8")

    assert committed == PAGES[name], "run `python docs/generate.py`"
