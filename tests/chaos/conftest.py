from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def kills(rounds: int) -> int:
    """How often to kill: a few times in an ordinary run, once for each round otherwise."""
    return max(3, rounds)
