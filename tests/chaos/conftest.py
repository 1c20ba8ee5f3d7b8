"""Fixtures of the chaos tests."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def kills(rounds: int) -> int:
    """Return the number of kills: a few in an ordinary run, one per round otherwise."""
    return max(3, rounds)
