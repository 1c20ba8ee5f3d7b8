"""Text that is shown on a terminal, whatever is in it."""

from __future__ import annotations

import pytest

from holdfast.portable.identifier import escaped_lines


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("a\r\nb", "a\nb"),
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\rb", "a\\rb"),
        ("zz\u2028default_pool", "zz\\u2028default_pool"),
        ("a\x85b\x0bc", "a\\x85b\\x0bc"),
    ],
)
def test_only_line_ends_and_tabs_are_kept(text: str, shown: str) -> None:
    assert escaped_lines(text) == shown
