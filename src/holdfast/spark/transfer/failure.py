"""Errors of Spark: those of ours that it passes on, and its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from holdfast import errors
from holdfast.errors import HoldfastError

_OURS: Final = re.compile(r"holdfast\.errors\.(\w+): (.+?)(?:\nhint: (.+?))?\s*?\n")


@contextmanager
def translated(doing: str) -> Iterator[None]:
    """What a worker raised is raised here; what Spark has to say is an error of ours."""
    try:
        yield
    except (PySparkException, Py4JJavaError) as error:
        told = str(error)
        found = _OURS.findall(told + "\n")
        if found:
            name, message, hint = found[-1]
            kind = getattr(errors, name, HoldfastError)
            raise kind(message, hint=hint) from error
        first = next(filter(None, map(str.strip, told.splitlines())), type(error).__name__)
        raise HoldfastError(
            f"Spark could not {doing}: {first}", hint="HOLDFAST_TRACEBACK=1 shows where it happened"
        ) from error
