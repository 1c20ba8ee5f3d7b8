"""Streaming queries whose batches count once."""
