"""Measure values that are kept as objects; print it, and write RESULTS.md."""

from __future__ import annotations

from bench import sections
from bench.offload import memory, reconcile, values

if __name__ == "__main__":
    sections.measure("bench.offload", __doc__, (values, memory, reconcile))
