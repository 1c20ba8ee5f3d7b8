"""Data files of lake tables, written and read on Spark's executors."""
