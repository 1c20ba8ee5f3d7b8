"""Measure our work on Spark beside what Spark does alone; print it, and write RESULTS.md."""

from __future__ import annotations

from bench import sections
from bench.spark import checkpoint, incremental, killed, reading, writing

if __name__ == "__main__":
    sections.measure("bench.spark", __doc__, (incremental, checkpoint, killed, reading, writing))
