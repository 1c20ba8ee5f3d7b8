"""Paths and metadata of objects."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from holdfast.model.path_part import path_part
from holdfast.model.scope import AssetScope, TaskScope
from holdfast.stores.offload.objects.naming import (
    MAX_METADATA,
    MAX_PART,
    folder,
    metadata,
    name,
    owner,
)

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=600)


def test_a_task_value_is_below_its_dag_run_task_index_and_key() -> None:
    scope = TaskScope("sales", "manual__2026-01-01T00:00:00+00:00", "load", 3)

    found = folder(scope, "job id")

    assert found == "task/sales/manual__2026-01-01T00%3A00%3A00+00%3A00/load/3/job%20id"


def test_an_asset_value_is_below_its_name_or_where_it_has_none_its_uri() -> None:
    assert folder(AssetScope(name="orders", uri="s3://x/y"), "cursor") == "asset/orders/cursor"
    assert folder(AssetScope(uri="s3://x/y"), "cursor") == "asset/s3%3A%2F%2Fx%2Fy/cursor"


def test_the_name_is_the_digest_of_the_content() -> None:
    digest = "6b86b273ff34fce19d6b804eff5a3f5747ada4eaa22f1d49c01e52ddb7875b4b"

    assert name(b"1", ".zst") == f"{digest}.json.zst"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".", "%2E"),
        ("..", "%2E%2E"),
        ("a/../b", "a%2F..%2Fb"),
        ("%2E", "%252E"),
        ("~", "%7E"),
        ("é", "%C3%A9"),
        ("A-z_0.9=+@", "A-z_0.9=+@"),
    ],
)
def test_special_characters_are_percent_encoded(text: str, expected: str) -> None:
    assert path_part(text) == expected


def test_a_long_text_keeps_a_readable_beginning_and_ends_in_a_digest() -> None:
    found = path_part("daily " * 80, MAX_PART)

    assert re.fullmatch(r"(daily%20){8}dai~[0-9a-f]{32}", found)


@given(TEXTS)
@example("😀" * 512)
@example("x" * 66 + "/" * 100)
def test_a_part_is_short_and_plain_and_never_ends_inside_an_escape(text: str) -> None:
    found = path_part(text, MAX_PART)

    assert re.fullmatch(r"([A-Za-z0-9_.=+@-]|%[0-9A-F]{2})+(~[0-9a-f]{32})?", found)
    assert len(found) <= MAX_PART and found not in (".", "..")


@given(TEXTS, TEXTS)
@example("x" * 400, "x" * 401)
@example("a", "A")
def test_two_texts_never_share_a_part(one: str, other: str) -> None:
    assert (path_part(one) == path_part(other)) == (one == other)


@pytest.mark.parametrize(
    "scope", [TaskScope("😀" * 250, "😀" * 250, "😀" * 250), AssetScope(uri="😀" * 1500)]
)
def test_metadata_is_ascii_and_within_the_limit_of_s3(scope: TaskScope | AssetScope) -> None:
    said = metadata(owner(scope), "😀" * 512)

    assert all(text.isascii() for text in said.values())
    assert sum(map(len, said.values())) <= MAX_METADATA
