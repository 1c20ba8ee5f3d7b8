"""Measure our work on Spark beside what Spark does alone; print it, and write RESULTS.md."""

from __future__ import annotations

from bench import sections
from bench.spark import checkpoint, incremental, killed, lake, reading, writing

if __name__ == "__main__":
    measured = (incremental, checkpoint, killed, reading, writing, lake)
    sections.measure("bench.spark", __doc__, measured)
