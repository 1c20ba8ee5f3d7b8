"""Streaming queries with exactly-once batches."""
