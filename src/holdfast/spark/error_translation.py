"""Translation of Spark's errors into those of Holdfast."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from holdfast.errors import KINDS, HoldfastError, MissingDependency, SparkUnavailable

_ABSENT: Final = re.compile(r"No module named '([\w.]+)'")
_OURS: Final = re.compile(r"holdfast\.errors\.(\w+): (.*)(?:\n\s*hint: (.*))?")
_CAUSE: Final = re.compile(r"^\s*([\w.]+(?:Error|Exception): .*)", re.MULTILINE)
"""The last line of an executor's traceback."""


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """Raise Spark's errors in the block as errors of Holdfast. Those that executors raised, and
    that Spark has wrapped, are restored."""
    from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        raise _translation(doing, str(error)) from error


def has_raised(error: BaseException, text: str) -> bool:
    """Return whether Spark has failed at our `raise_error(text)`.

    The text alone is no proof: messages of other errors may show the query plan, which contains it.
    """
    return f"[USER_RAISED_EXCEPTION] {text}" in str(error)


def error_in(text: str) -> HoldfastError | None:
    """Return the last error of Holdfast in Spark's message, in which Python's causes come first;
    None if there is none."""
    kinds = {kind.__name__: kind for kind in KINDS.values()}
    for name, message, hint in reversed(_OURS.findall(text)):
        if name in kinds:
            return kinds[name](message, hint=hint)
    return None


def _translation(doing: str, text: str) -> HoldfastError:
    absent = _ABSENT.search(text)
    if absent:
        return MissingDependency(
            f"Spark's executors cannot {doing}: the package `{absent[1]}` is not installed there",
            hint='pip install "holdfast-state[spark,objects]" there, with the database\'s driver',
        )
    if (ours := error_in(text)) is not None:
        return ours
    causes = _CAUSE.findall(text) or text.strip().splitlines()[:1] or ["no reason given"]
    return SparkUnavailable(
        f"Spark could not {doing}: {causes[-1]}",
        hint="run the command again; HOLDFAST_TRACEBACK=1 shows the traceback",
    )
