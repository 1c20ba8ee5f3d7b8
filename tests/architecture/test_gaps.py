"""Conformance suite on stores that support less, or more, than they declare."""

from __future__ import annotations

from collections import Counter

import pytest

pytest_plugins = ["pytester"]

STORE = """
import pytest
from holdfast import commands as c
from holdfast.errors import NotSupported
from holdfast.testing import StateConformance
from holdfast.testing.memory_store import MemoryStore


class Refuses(MemoryStore):
    def execute(self, command):
        if isinstance(command, {refused}):
            raise NotSupported("it refuses")
        return super().execute(command)

    def supports(self, command):
        return not issubclass(command, {refused})


class TestRefuses(StateConformance):
    gaps = {gaps}
    differs = {differs}

    @pytest.fixture
    def make_store(self):
        return lambda clock: Refuses(clock=clock)
"""
PICKLED = "test_a_pickled_store_reads_and_writes_the_same_state"


def outcomes(
    pytester: pytest.Pytester,
    select: str,
    *,
    refused: str = "()",
    gaps: str = "()",
    differs: str = "{}",
) -> Counter[str]:
    pytester.makepyfile(test_store=STORE.format(refused=refused, gaps=gaps, differs=differs))
    # In a separate process, whose warnings are not errors.
    ended = pytester.runpytest_subprocess("-q", "--tb=no", "-k", select, "-p", "no:cacheprovider")
    found = Counter(ended.parseoutcomes())
    del found["deselected"]
    return found


def test_a_store_that_refuses_every_write_fails(pytester: pytest.Pytester) -> None:
    found = outcomes(pytester, "get or set", refused="(c.Set, c.SetMany)")

    assert found["failed"] > 50
    assert not found["skipped"] and not found["xfailed"]


def test_random_commands_fail_where_a_write_is_refused(pytester: pytest.Pytester) -> None:
    found = outcomes(pytester, "random_commands", refused="(c.Set,)")

    assert found == {"failed": 2}


def test_a_declared_gap_is_an_expected_failure(pytester: pytest.Pytester) -> None:
    found = outcomes(pytester, "watermark", refused="(c.Advance,)", gaps="(c.Advance,)")

    assert found["xfailed"] > 5
    assert not found["failed"] and not found["skipped"]


def test_a_declared_gap_that_works_fails(pytester: pytest.Pytester) -> None:
    found = outcomes(pytester, "declared_gap", gaps="(c.Advance, 'if_version')")

    assert found == {"failed": 2}


@pytest.mark.full
def test_a_test_that_differs_has_to_fail(pytester: pytest.Pytester) -> None:
    differs = f"{{{PICKLED!r}: 'it is in memory'}}"
    assert outcomes(pytester, PICKLED, differs=differs) == {"xfailed": 4}

    passing = "{'test_a_pickled_scope_has_the_same_ti_id': 'it does not'}"
    assert outcomes(pytester, "pickled_scope", differs=passing) == {"failed": 1}


@pytest.mark.full
def test_a_test_that_differs_has_to_exist(pytester: pytest.Pytester) -> None:
    assert outcomes(pytester, "pickled", differs="{'test_nothing': 'why'}") == {"errors": 1}
