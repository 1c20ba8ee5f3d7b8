"""Errors of the data source, as Spark shows them."""

from __future__ import annotations

import os
from contextlib import ContextDecorator

from holdfast.errors import HoldfastError


class plainly(ContextDecorator):  # noqa: N801  (it reads as a statement)
    """Have Spark show an error of Holdfast without the traceback in front of it.

    It is for Spark's Python workers: they read this environment variable when they report an error,
    and then exit.
    """

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, HoldfastError):
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"
