"""Errors of the data source, as Spark shows them."""

from __future__ import annotations

import os
from contextlib import ContextDecorator
from types import TracebackType

from holdfast.errors import HoldfastError


class plainly(ContextDecorator):  # noqa: N801  (it reads as a statement)
    """Let Spark show an error of Holdfast without the traceback in front of it.

    It is for Python workers of Spark: they read this variable of the environment when they report
    an error, and end then.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if isinstance(error, HoldfastError):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
