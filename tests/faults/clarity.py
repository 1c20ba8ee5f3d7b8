"""What every error owes to the person who reads it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from holdfast.errors import HoldfastError

E = TypeVar("E", bound=HoldfastError)


def refusal(kind: type[E], call: Callable[..., Any], *args: Any, **options: Any) -> E:
    """The error of that kind which the call raises: one line, and a hint."""
    with pytest.raises(kind) as caught:
        call(*args, **options)
    error = caught.value
    assert error.message
    assert "\n" not in error.message
    assert error.hint
    return error
