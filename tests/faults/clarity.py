"""Assertions about every error message."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from holdfast.errors import HoldfastError

E = TypeVar("E", bound=HoldfastError)


def refusal(kind: type[E], call: Callable[..., Any], *args: Any, **options: Any) -> E:
    """Return the error of that kind from the call; assert that it has one line and a hint."""
    with pytest.raises(kind) as caught:
        call(*args, **options)
    error = caught.value
    assert error.message
    assert "\n" not in error.message
    assert error.hint
    return error
