"""The API for workers."""
